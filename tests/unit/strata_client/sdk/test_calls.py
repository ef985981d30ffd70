"""Calls: what is sent, and what a refusal becomes."""

from __future__ import annotations

import pytest

from strata_client import (
    ClientError,
    StrataApiError,
    StrataClient,
)
from tests.support.fake_api import (
    INDEXED,
    QUERY,
    FakeApi,
    Reply,
    error_reply,
    json_reply,
)


def test_every_call_reads_its_answer(client: StrataClient) -> None:
    assert client.health()["status"] == "ok"
    assert [view["session_id"] for view in client.sessions()] == ["shop"]
    assert client.session("shop")["dimension"] == 384
    assert [view["job_id"] for view in client.jobs("shop")] == ["job-1"]
    assert client.job("job-1")["status"] == "done"
    assert [item["name"] for item in client.drift("shop")["drift"]] == ["shop.Gone"]
    assert client.links("shop", "a b/ж.py")["used_by"][0]["path"] == "shop/web.py"
    assert {file["path"]: file["text"] for file in client.files("shop")} == INDEXED
    assert client.changes("shop", [{"op": "delete", "path": "a.md"}])["status"] == "queued"
    assert client.retrieve("shop", "retry")["rows"][0]["path"] == "src/retry.py"
    assert client.create_session("shop")["job"]["status"] == "awaiting_upload"
    assert client.set_readers("shop", ["group:writers"])["session_id"] == "shop"
    assert client.failures()["dead_letters"][0]["id"] == "letter-1"
    assert client.cancel_job("job-1")["status"] == "cancelled"
    assert client.retry_job("job-1")["status"] == "queued"
    client.delete_session("shop")


def test_a_request_says_only_what_it_was_told(api: FakeApi, client: StrataClient) -> None:
    client.create_session("shop", readers=["group:writers"])
    client.retrieve("shop", "retry", layers=["C0"], limit=5)

    assert api.requests[0].json() == {"session_id": "shop", "readers": ["group:writers"]}
    assert api.requests[1].json() == {"query": "retry", "layers": ["C0"], "limit": 5}
    assert {request.headers["authorization"] for request in api.requests} == {"Bearer secret"}


def test_a_name_is_escaped_in_the_path(api: FakeApi, client: StrataClient) -> None:
    with pytest.raises(StrataApiError):
        client.job("a/b c?d")

    assert api.requests[0].path == "/api/rag/jobs/a%2Fb%20c%3Fd"


@pytest.mark.parametrize("name", ["", ".", "..", "../jobs", "a/b", "a b", "сессия", "-x", "x" * 101, "a\n"])
def test_what_is_no_sessions_name_is_said_before_another_route_is_asked(
    api: FakeApi, client: StrataClient, name: str
) -> None:
    for call in (client.session, client.delete_session, client.roll_back, lambda name: client.retrieve(name, "x")):
        with pytest.raises(ClientError, match="is no session's name"):
            call(name)
    assert api.requests == []


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(error_reply(404, "session_not_found", "No."), (404, "session_not_found", "No."), id="Strata's"),
        pytest.param(json_reply({"message": "Forbidden"}, 403), (403, "http_403", "Forbidden"), id="a gateway's"),
        pytest.param(
            Reply(status=502, chunks=[b"<html>bad</html>"]),
            (502, "http_502", "The server answered with HTTP 502 and no reason."),
            id="a proxy's page",
        ),
        pytest.param(
            Reply(status=500), (500, "http_500", "The server answered with HTTP 500 and no reason."), id="empty"
        ),
    ],
)
def test_a_refusal_is_an_error_with_status_code_and_sentence(
    api: FakeApi, client: StrataClient, reply: Reply, expected: tuple[int, str, str]
) -> None:
    api.on("GET", "/api/rag/sessions/shop", reply)

    with pytest.raises(StrataApiError) as caught:
        client.session("shop")

    assert (caught.value.status, caught.value.code, caught.value.message) == expected


def test_a_page_that_is_not_strata_is_told_apart(api: FakeApi, client: StrataClient) -> None:
    api.on("GET", "/health", Reply(headers={"content-type": "text/html"}, chunks=[b"<html>hello</html>"]))
    api.on("POST", QUERY, Reply(headers={"content-type": "text/html"}, chunks=[b"<html>hello</html>"]))

    with pytest.raises(ClientError, match="not Strata"):
        client.health()
    with pytest.raises(ClientError, match="not with a stream of events"):
        list(client.ask("shop", "why?"))


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://[::1"])
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(ClientError, match="is not an address"):
        StrataClient(url)


@pytest.mark.parametrize("token", ["a\nb", "ключ", "a b"])
def test_a_token_that_no_header_can_carry_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(ClientError) as caught:
        StrataClient("http://127.0.0.1:1", token)
    assert token not in caught.value.message


def test_a_proxy_in_the_environment_is_not_asked_for_this_machine(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    with StrataClient(api.url) as client:
        assert client.health()["status"] == "ok"
