from __future__ import annotations

import asyncio
import base64
import socket
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strata_client import (
    ApiUnreachable,
    AsyncStrataClient,
    Citation,
    ClientError,
    Delta,
    Done,
    Meta,
    RetryPolicy,
    Sources,
    StrataApiError,
    StrataClient,
    StreamBroken,
)
from strata_client.events import AnswerCollector
from tests.support.fake_api import (
    ANSWER_TEXT,
    CITATIONS,
    DROP,
    INDEXED,
    SOURCES,
    FakeApi,
    Reply,
    answer_events,
    behave_well,
    error_reply,
    fake_api,
    job_view,
    json_reply,
    sse,
    sse_reply,
)

QUERY = "/api/rag/sessions/shop/query"
EVENTS = "/api/rag/jobs/job-1/events"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with fake_api() as api:
        behave_well(api)
        yield api


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def client(api: FakeApi, waits: list[float]) -> Iterator[StrataClient]:
    with StrataClient(api.url, "secret", sleep=waits.append) as client:
        yield client


# --- calls ----------------------------------------------------------------------------------------------------------


def test_every_call_reads_its_answer(client: StrataClient) -> None:
    assert client.health()["status"] == "ok"
    assert [view["session_id"] for view in client.sessions()] == ["shop"]
    assert client.session("shop")["dimension"] == 384
    assert [view["job_id"] for view in client.jobs("shop")] == ["job-1"]
    assert client.job("job-1")["status"] == "done"
    assert [item["name"] for item in client.drift("shop")["drift"]] == ["shop.Gone"]
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
        client.session("a/b c?d")

    assert api.requests[0].path == "/api/rag/sessions/a%2Fb%20c%3Fd"


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


# --- retries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(error_reply(429, "slow_down", "Slow down."), id="429"),
        pytest.param(error_reply(503, "store_unavailable", "Later."), id="503"),
        pytest.param(DROP, id="lost connection"),
    ],
)
def test_what_changes_nothing_is_tried_again(
    api: FakeApi, client: StrataClient, waits: list[float], failure: Reply
) -> None:
    api.on("GET", "/api/rag/jobs/job-1", failure, failure, json_reply(job_view()))
    api.on("POST", QUERY, failure, sse_reply(answer_events()))
    api.on(
        "POST",
        "/api/rag/sessions/shop/retrieve",
        failure,
        json_reply({"session_id": "shop", "generation": 1, "embedding_model": "m", "rows": []}),
    )

    assert client.job("job-1")["status"] == "done"
    assert isinstance(list(client.ask("shop", "why?"))[-1], Done)
    assert client.retrieve("shop", "retry")["rows"] == []
    assert len(waits) == 4
    assert all(0 < wait <= 5 for wait in waits)


def test_retry_after_is_obeyed_up_to_the_longest_wait(api: FakeApi, client: StrataClient, waits: list[float]) -> None:
    api.on(
        "GET",
        "/health",
        error_reply(503, "later", "Later.", **{"retry-after": "2"}),
        error_reply(503, "later", "Later.", **{"retry-after": "3600"}),
        json_reply({"status": "ok"}),
    )

    client.health()

    assert waits == [2.0, 5.0]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        pytest.param(error_reply(503, "store_unavailable", "Later."), StrataApiError, id="503 may have begun"),
        pytest.param(DROP, ApiUnreachable, id="a lost connection may have begun"),
    ],
)
def test_what_may_have_begun_is_not_sent_twice(
    api: FakeApi, client: StrataClient, failure: Reply, expected: type[ClientError]
) -> None:
    path = "/api/rag/sessions/shop/changes"
    api.on("POST", path, failure)

    with pytest.raises(expected):
        client.changes("shop", [{"op": "delete", "path": "a.md"}])

    assert len(api.asked("POST", path)) == 1


def test_a_change_that_was_turned_away_is_sent_again(api: FakeApi, client: StrataClient) -> None:
    path = "/api/rag/sessions/shop/changes"
    api.on("POST", path, error_reply(429, "slow_down", "Slow down."), json_reply({"job": job_view("queued")}, 202))

    assert client.changes("shop", [{"op": "delete", "path": "a.md"}])["status"] == "queued"


def test_it_gives_up_after_the_last_attempt_with_the_servers_reason(api: FakeApi, waits: list[float]) -> None:
    api.on("GET", "/health", error_reply(503, "store_unavailable", "Later."))

    with (
        StrataClient(api.url, retry=RetryPolicy(attempts=3), sleep=waits.append) as client,
        pytest.raises(StrataApiError, match=r"Later\. \[503 store_unavailable\]"),
    ):
        client.health()

    assert len(api.requests) == 3
    assert len(waits) == 2


def test_nothing_there_is_told_with_the_address(waits: list[float]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with StrataClient(url, sleep=waits.append) as client, pytest.raises(ApiUnreachable) as caught:
        client.sessions()

    assert caught.value.url == url
    assert len(waits) == 3


def test_a_silent_server_is_not_asked_again(api: FakeApi) -> None:
    def sleep_long(_: object) -> Reply:
        time.sleep(0.5)
        return json_reply({})

    api.on("GET", "/health", sleep_long)
    with StrataClient(api.url, timeout_s=0.1) as client, pytest.raises(ApiUnreachable, match="no answer in time"):
        client.health()

    assert len(api.requests) == 1


# --- upload ---------------------------------------------------------------------------------------------------------


def test_an_archive_goes_to_the_store_by_the_form_and_without_the_token(
    api: FakeApi, client: StrataClient, tmp_path: Path
) -> None:
    archive = tmp_path / "snapshot.tar.gz"
    content = bytes(range(256)) * 1_000
    archive.write_bytes(content)
    form = client.create_session("shop")["upload"]
    assert form is not None
    sent: list[int] = []

    client.upload(form, archive, sent.append)

    (request,) = api.asked("POST", "/store")
    parts = request.form()
    assert list(parts) == ["key", "Content-Type", "policy", "file"], "the file comes last, or S3 refuses the form"
    assert parts["file"] == content
    assert "authorization" not in request.headers
    assert request.headers["content-length"] == str(len(request.body)), "S3 takes no chunked form"
    assert sent[-1] == len(content)
    assert sent == sorted(sent)


def test_an_upload_that_was_cut_starts_again_from_the_first_byte(
    api: FakeApi, client: StrataClient, tmp_path: Path
) -> None:
    archive = tmp_path / "snapshot.tar.gz"
    archive.write_bytes(b"all of it")
    api.on("POST", "/store", DROP, Reply(status=503), Reply(status=204))
    form = client.create_session("shop")["upload"]
    assert form is not None

    client.upload(form, archive)

    assert [request.form()["file"] for request in api.asked("POST", "/store")] == [b"all of it"] * 3


def test_the_stores_refusal_is_read(api: FakeApi, client: StrataClient, tmp_path: Path) -> None:
    archive = tmp_path / "snapshot.tar.gz"
    archive.write_bytes(b"x")
    xml = b'<?xml version="1.0"?><Error><Code>EntityTooLarge</Code><Message>Too large.</Message></Error>'
    api.on("POST", "/store", Reply(status=400, chunks=[xml]))
    form = client.create_session("shop")["upload"]
    assert form is not None

    with pytest.raises(StrataApiError) as caught:
        client.upload(form, archive)

    assert (caught.value.status, caught.value.code) == (400, "EntityTooLarge")


# --- job events -----------------------------------------------------------------------------------------------------


def test_events_are_followed_over_replies_to_the_end(api: FakeApi, client: StrataClient, waits: list[float]) -> None:
    events = list(client.job_events("job-1"))

    assert [(event.seq, event.name) for event in events] == [(1, "index_status"), (2, "terminal")]
    first, second = api.asked("GET", EVENTS)
    assert "last-event-id" not in first.headers
    assert second.headers["last-event-id"] == "1"
    assert waits == [0.05], "the server's retry, not our own"


def test_a_break_loses_no_event_and_repeats_none(api: FakeApi, client: StrataClient) -> None:
    whole = [sse("index_status", {"phase": "preparing"}, n) for n in (1, 2, 3)]
    api.on(
        "GET",
        EVENTS,
        sse_reply(whole[0], whole[1][:20], cut=True),
        DROP,
        INDEXED,
        error_reply(503, "later", "Later."),
        sse_reply(whole[0] + whole[1]),  # a server that repeats what it was told has been seen
        sse_reply(whole[2] + sse("terminal", job_view(), 4)),
    )

    assert [event.seq for event in client.job_events("job-1")] == [1, 2, 3, 4]


def test_wait_for_gives_the_job_at_its_end(client: StrataClient) -> None:
    heard: list[str] = []

    job = client.wait_for("job-1", lambda event: heard.append(event.name))

    assert job["status"] == "done"
    assert heard == ["index_status", "terminal"]


def test_a_server_that_only_breaks_off_is_given_up(api: FakeApi, client: StrataClient, waits: list[float]) -> None:
    api.on("GET", EVENTS, sse_reply(b": hello\n\n", cut=True))

    with pytest.raises(StreamBroken):
        list(client.job_events("job-1"))

    assert len(waits) == 8
    assert waits[-1] > waits[0]


def test_an_unknown_job_is_not_waited_for(api: FakeApi, client: StrataClient) -> None:
    api.on("GET", EVENTS, error_reply(404, "job_not_found", "No such job."))

    with pytest.raises(StrataApiError, match="No such job"):
        list(client.job_events("job-1"))

    assert len(api.requests) == 1


def test_waiting_ends_at_its_time_limit(api: FakeApi, client: StrataClient) -> None:
    api.on("GET", EVENTS, sse_reply(b"retry: 200\n\n"))

    with pytest.raises(StreamBroken, match=r"job-1 has not ended after 0\.1 s"):
        client.wait_for("job-1", timeout_s=0.1)


# --- answers --------------------------------------------------------------------------------------------------------


def test_an_answer_comes_as_typed_events(client: StrataClient) -> None:
    events = list(client.ask("shop", "why?", path_prefixes=["src/"]))

    assert [type(event) for event in events] == [Meta, Sources, Delta, Delta, Citation, Citation, Done]
    assert "".join(event.text for event in events if isinstance(event, Delta)) == ANSWER_TEXT
    collector = AnswerCollector("shop")
    for event in events:
        collector.add(event)
    answer = collector.answer()
    assert answer["answer"] == {"text": ANSWER_TEXT, "citations": CITATIONS, "grounded": True, "abstained": False}
    assert answer["sources"] == SOURCES
    assert answer["generation"] == 3


def test_an_answer_survives_any_cut_of_the_network(api: FakeApi, client: StrataClient) -> None:
    api.on("POST", QUERY, sse_reply(*(bytes([byte]) for byte in answer_events())))

    events = list(client.ask("shop", "why?"))

    assert "".join(event.text for event in events if isinstance(event, Delta)) == ANSWER_TEXT


def test_deltas_are_given_when_they_come(api: FakeApi, client: StrataClient) -> None:
    pieces = [sse("delta", {"text": str(n)}) for n in range(3)]
    api.on("POST", QUERY, sse_reply(*pieces, answer_events(), pause_s=0.15))
    started = time.monotonic()

    arrivals = [time.monotonic() - started for event in client.ask("shop", "why?") if isinstance(event, Delta)]

    assert arrivals[0] < 0.14
    assert arrivals[2] - arrivals[0] > 0.25


def test_an_error_in_the_stream_is_raised(api: FakeApi, client: StrataClient) -> None:
    failed = sse("error", {"code": "generator_unavailable", "message": "The chat model is away."})
    api.on("POST", QUERY, sse_reply(sse("delta", {"text": "So"}) + failed))

    events = client.ask("shop", "why?")

    assert next(events) == Delta("So")
    with pytest.raises(StrataApiError) as caught:
        next(events)
    assert caught.value.code == "generator_unavailable"


@pytest.mark.parametrize("cut", [True, False], ids=["connection lost", "closed in good form"])
def test_an_answer_without_its_end_is_not_taken_for_whole(api: FakeApi, client: StrataClient, cut: bool) -> None:
    api.on("POST", QUERY, sse_reply(sse("delta", {"text": "So"}), cut=cut))

    with pytest.raises(StreamBroken):
        list(client.ask("shop", "why?"))

    assert len(api.requests) == 1, "what has begun to answer is not asked again behind the caller's back"


@pytest.mark.parametrize("data", [b"not json", b"[]", b"{}", b"null"])
def test_an_event_that_can_not_be_read_is_a_clear_error(api: FakeApi, client: StrataClient, data: bytes) -> None:
    api.on("POST", QUERY, sse_reply(b"event: delta\ndata: " + data + b"\n\n"))

    with pytest.raises(ClientError, match="can't read"):
        list(client.ask("shop", "why?"))


def test_the_whole_answer_is_asked_for_as_json(api: FakeApi, client: StrataClient) -> None:
    api.on("POST", QUERY, json_reply({"answer": {"text": ANSWER_TEXT}}))

    assert client.answer("shop", "why?")["answer"]["text"] == ANSWER_TEXT
    assert api.requests[0].headers["accept"] == "application/json"


def test_inline_files_need_no_upload(api: FakeApi, client: StrataClient) -> None:
    api.on("POST", "/api/rag/sessions", json_reply({"session": {}, "job": job_view("queued"), "upload": None}, 200))

    created = client.create_session(
        "shop", files=[{"path": "a.bin", "content_b64": base64.b64encode(b"\0").decode(), "acl": ["user:ann"]}]
    )

    assert created["upload"] is None
    assert api.requests[0].json()["files"][0]["acl"] == ["user:ann"]


# --- the asynchronous twin ------------------------------------------------------------------------------------------


def test_the_asynchronous_client_keeps_the_same_promises(api: FakeApi, tmp_path: Path) -> None:
    archive = tmp_path / "snapshot.tar.gz"
    archive.write_bytes(b"all of it")
    whole = [sse("index_status", {}, n) for n in (1, 2)]
    api.on("GET", EVENTS, sse_reply(whole[0], cut=True), sse_reply(whole[1] + sse("terminal", job_view(), 3)))
    api.on("POST", "/store", Reply(status=503), Reply(status=204))
    api.on("GET", "/health", DROP, json_reply({"status": "ok"}))

    async def no_wait(_: float) -> None:
        await asyncio.sleep(0)

    async def everything() -> list[Any]:
        async with AsyncStrataClient(api.url, "secret", sleep=no_wait) as client:
            form = (await client.create_session("shop"))["upload"]
            assert form is not None
            await client.upload(form, archive)
            job = await client.wait_for("job-1")
            asked = [event async for event in client.ask("shop", "why?")]
            with pytest.raises(StrataApiError, match="There is no GET"):
                await client.session("other")
            calls: list[Awaitable[Any]] = [
                client.health(),
                client.sessions(),
                client.jobs("shop"),
                client.drift("shop"),
                client.job("job-1"),
                client.retrieve("shop", "retry"),
                client.changes("shop", [{"op": "delete", "path": "a.md"}]),
            ]
            indexed = {file["path"]: file["text"] async for file in client.files("shop")}
            assert indexed == INDEXED
            return [job, asked, *[await call for call in calls]]

    job, asked, health, *_ = asyncio.run(everything())

    assert job["status"] == "done"
    assert isinstance(asked[-1], Done)
    assert health == {"status": "ok"}
    assert [request.form()["file"] for request in api.asked("POST", "/store")] == [b"all of it"] * 2
    assert api.asked("GET", EVENTS)[1].headers["last-event-id"] == "1"


def test_the_two_clients_have_the_same_methods() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(AsyncStrataClient) == public(StrataClient)
