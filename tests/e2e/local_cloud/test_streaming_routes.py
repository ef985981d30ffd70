"""Routes whose function streams its reply through the Runtime API."""

from __future__ import annotations

import json
import time

import httpx
import pytest

from strata_local.up import LocalCloud
from tests.support.waiting import assert_apart

pytestmark = pytest.mark.e2e


def test_pieces_arrive_as_they_are_made(http: httpx.Client) -> None:
    http.get("/stream/describe")
    arrivals = []
    started = time.monotonic()
    with http.stream("GET", "/stream/tokens") as reply:
        assert reply.headers["content-type"] == "text/event-stream"
        for piece in reply.iter_raw():
            arrivals.append((time.monotonic() - started, piece))
    assert b"".join(piece for _, piece in arrivals) == b"data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\n"
    moments = [moment for moment, _ in arrivals]
    assert len(moments) == 4
    assert_apart(moments, 0.2)


@pytest.mark.parametrize(
    ("case", "status", "body"),
    [
        ("nothing", 204, b""),
        ("denied", 401, b'{"error": "sign in"}'),
        ("missing", 404, b"not here"),
        ("moved", 302, b""),
    ],
)
def test_every_status_arrives(http: httpx.Client, case: str, status: int, body: bytes) -> None:
    reply = http.get(f"/stream/{case}")
    assert (reply.status_code, reply.content) == (status, body)


def test_a_head_request_gets_the_head_alone_and_the_connection_lives_on(http: httpx.Client) -> None:
    reply = http.head("/stream/describe")
    assert (reply.status_code, reply.content) == (200, b"")
    assert reply.headers["content-type"] == "application/json"
    assert http.get("/stream/describe").json()["method"] == "GET"


def test_cookies_and_repeated_headers_arrive(http: httpx.Client) -> None:
    headers = http.get("/stream/cookies").headers
    assert headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert headers.get_list("vary") == ["a", "b"]


def test_the_application_knows_its_request(http: httpx.Client) -> None:
    known = http.post("/stream/de%20scribe?a=1&a=%26", content="привет").json()
    assert (known["method"], known["path"], known["query"]) == ("POST", "/stream/de scribe", "a=1&a=%26")
    assert known["body"].encode("latin-1").decode() == "привет"
    assert known["claims"]["sub"] == "local"
    assert 0 < known["remaining_ms"] <= 4_000
    assert abs(known["deadline_ms"] - time.time() * 1000) < 10_000
    assert known["trace"].startswith("Root=1-")


def test_the_lifespan_runs_once_a_process(http: httpx.Client) -> None:
    for _ in range(3):
        known = http.get("/stream/describe").json()
        assert (known["starts"], known["state"]) == (1, {"greeting": "hello"})


@pytest.mark.parametrize(
    ("case", "error_type"),
    [("raises-before", "ValueError"), ("crashes-before", "Runtime.ExitError"), ("huge-headers", "PreludeTooLarge")],
)
def test_an_error_before_the_first_byte_is_502_without_detail(http: httpx.Client, case: str, error_type: str) -> None:
    reply = http.get(f"/stream/{case}")
    assert (reply.status_code, reply.headers["x-amzn-errortype"]) == (502, error_type)
    assert "secret" not in reply.text
    assert http.get("/stream/describe").status_code == 200


@pytest.mark.parametrize("case", ["raises-after", "crashes-after", "returns-early"])
def test_an_error_in_the_stream_breaks_it_off(http: httpx.Client, case: str) -> None:
    received = b""
    broken = False
    with http.stream("GET", f"/stream/{case}") as reply:
        assert reply.status_code == 200
        try:
            for piece in reply.iter_raw():
                received += piece
        except httpx.RemoteProtocolError:
            broken = True
    assert broken
    assert received == b"begun"
    assert http.get("/stream/describe").status_code == 200


def test_an_error_after_the_reply_is_complete_leaves_the_reply_whole(http: httpx.Client) -> None:
    reply = http.get("/stream/raises-when-complete")
    assert (reply.status_code, reply.content) == (500, b"an honest 500")


def test_near_the_deadline_an_event_stream_ends_with_an_error_event(http: httpx.Client) -> None:
    reply = http.get("/stream/never-ends")
    assert reply.text.startswith("data: begun\n\n")
    last = reply.text.strip().split("\n\n")[-1]
    assert last.strip().startswith("event: error\ndata: {")
    assert json.loads(last.partition("data: ")[2])["code"] == "deadline_exceeded"


@pytest.mark.parametrize("case", ["never-starts", "blocks-a-thread"])
def test_near_the_deadline_a_reply_that_has_not_begun_is_an_error(http: httpx.Client, case: str) -> None:
    reply = http.get(f"/stream/{case}")
    assert (reply.status_code, reply.headers["x-amzn-errortype"]) == (502, "DeadlineExceeded")
    assert http.get("/stream/describe").status_code == 200


def test_a_reader_who_goes_away_does_not_stop_the_function(http: httpx.Client, cloud: LocalCloud) -> None:
    with http.stream("GET", "/stream/tokens") as reply:
        next(reply.iter_raw())
    assert http.get("/stream/describe").status_code == 200


@pytest.mark.parametrize("path", ["/wrong/buffered", "/wrong/streaming"])
def test_a_reply_in_the_other_form_than_its_routes_is_502(http: httpx.Client, path: str) -> None:
    assert http.get(path).status_code == 502
