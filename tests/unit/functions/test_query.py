"""The query function as an ASGI application, with an indexed project in memory behind it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest

from strata.answering.answer import Answerer
from strata.bootstrap import questions
from strata.edge import sse
from strata.errors import EmbedderUnavailable, GeneratorUnavailable
from strata_client.sse import SseEvent, SseParser
from tests.support.asking import INDEXING_DOCS, SESSION_ID, Project, ScriptedGenerator
from tests.support.lambda_events import ANN, load_function, rest_event
from tests.support.waiting import assert_apart

QUERY = "/api/rag/sessions/demo/query"
RETRIEVE = "/api/rag/sessions/demo/retrieve"
ASKED = {"question": "How long does a lease last?"}
APP = load_function("query").app


@dataclass
class Received:
    """One message of a reply's body, and when it came, in seconds after the request."""

    at: float
    body: bytes


@dataclass
class Stream:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        return b"".join(part.body for part in self.received)

    @property
    def events(self) -> list[SseEvent]:
        return SseParser().feed(self.body)

    def named(self, name: str) -> list[Any]:
        return [json.loads(event.data) for event in self.events if event.name == name]

    @property
    def error_code(self) -> str:
        (error,) = json.loads(self.body).values()
        return str(error["code"])


async def ask(
    path: str = QUERY,
    body: object = None,
    *,
    claims: Mapping[str, Any] | None = ANN,
    headers: Mapping[str, str] | None = None,
    deadline_in_s: float | None = None,
    leave_after: int | None = None,
) -> Stream:
    """The application called as the streaming bootstrap calls it; every message of the reply is kept with its time."""
    event = rest_event("POST", path, body=ASKED if body is None else body, claims=claims, headers=headers)
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "https",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in event["headers"].items()],
        "server": ("api.test", 443),
        "client": ("203.0.113.7", 0),
        "aws.event": event,
    }
    if deadline_in_s is not None:
        scope["strata.deadline_ms"] = int((time.time() + deadline_in_s) * 1_000)
    sent, left = False, asyncio.Event()
    stream, started = Stream(), time.perf_counter()

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": event["body"].encode(), "more_body": False}
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            stream.status = message["status"]
            stream.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif message.get("body"):
            stream.received.append(Received(time.perf_counter() - started, message["body"]))
            if leave_after is not None and len(stream.received) >= leave_after:
                left.set()

    await APP(scope, receive, send)
    return stream


@asynccontextmanager
async def client(*, claims: Mapping[str, Any] | None = ANN) -> AsyncIterator[httpx.AsyncClient]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope["aws.event"] = rest_event(scope["method"], scope["path"], claims=claims)
        await APP(scope, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://api.test") as opened:
        yield opened


def use(monkeypatch: pytest.MonkeyPatch, project: Project, generator: ScriptedGenerator | None = None) -> Answerer:
    answerer = project.answerer(generator)
    monkeypatch.setattr(questions, "answerer", lambda: answerer)
    monkeypatch.setattr(questions, "retriever", project.retriever)
    return answerer


@pytest.fixture(autouse=True)
def project(monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project()
    use(monkeypatch, project)
    return project


def test_deltas_arrive_apart_as_they_are_made(monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    use(monkeypatch, project, ScriptedGenerator([f" word{n}" for n in range(8)], pause_s=0.1))
    stream = asyncio.run(ask())
    deltas = [part.at for part in stream.received if b"event: delta" in part.body]
    assert len(deltas) == 8
    assert_apart(deltas, 0.1)
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.headers["cache-control"] == "no-cache, no-transform"
    assert stream.headers["x-accel-buffering"] == "no"


def test_each_message_is_whole_events_in_whole_characters(monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    use(monkeypatch, project, ScriptedGenerator(list("Привет 🌍 data: a lease lasts 60 seconds [1].\n\nevent: x")))
    stream = asyncio.run(ask())
    for part in stream.received:
        text = part.body.decode()
        assert text.endswith("\n\n")
        assert "\ufffd" not in text
    parser = SseParser()
    read = [event for byte in stream.body for event in parser.feed(bytes([byte]))]
    assert read == stream.events
    joined = "".join(json.loads(event.data)["text"] for event in read if event.name == "delta")
    assert joined == "Привет 🌍 data: a lease lasts 60 seconds [1].\n\nevent: x"


def test_one_object_is_the_same_as_the_events() -> None:
    stream = asyncio.run(ask())
    whole = asyncio.run(ask(headers={"Accept": "application/json"}))
    assert whole.headers["content-type"] == "application/json"
    answer = json.loads(whole.body)
    (done,) = stream.named("done")
    assert answer["answer"]["text"] == done["answer"] == "".join(delta["text"] for delta in stream.named("delta"))
    assert answer["answer"]["citations"] == stream.named("citation")
    assert answer["sources"] == stream.named("sources")[0]
    assert {"grounded": True, "abstained": False}.items() <= answer["answer"].items()
    assert (stream.named("meta")[0]["cache"], answer["cache"]) == ("miss", "hit")


def test_heartbeats_are_sent_while_the_first_event_is_awaited(
    monkeypatch: pytest.MonkeyPatch, project: Project
) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_S", 0.05)
    slow = project.answerer()

    def load() -> Answerer:
        time.sleep(1.0)
        return slow

    monkeypatch.setattr(questions, "answerer", load)
    stream = asyncio.run(ask())
    first = next(number for number, part in enumerate(stream.received) if part.body.startswith(b"event: meta"))
    assert first >= 2
    assert {part.body for part in stream.received[:first]} == {b": still here\n\n"}
    assert [event.name for event in stream.events][-1] == "done"


def test_an_error_before_the_first_event_has_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Answerer:
        raise EmbedderUnavailable

    monkeypatch.setattr(questions, "answerer", fail)
    stream = asyncio.run(ask())
    assert (stream.status, stream.error_code) == (503, "embedder_unavailable")
    assert stream.headers["content-type"] == "application/json"
    assert "retry-after" in stream.headers


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(GeneratorUnavailable(), "generator_unavailable", id="an error of ours"),
        pytest.param(ZeroDivisionError("secret"), "internal", id="a fault"),
    ],
)
def test_an_error_after_the_first_event_is_an_event(
    monkeypatch: pytest.MonkeyPatch, project: Project, error: Exception, code: str
) -> None:
    use(monkeypatch, project, ScriptedGenerator(["The lease "], error=error))
    stream = asyncio.run(ask())
    assert stream.status == 200
    assert [event.name for event in stream.events] == ["meta", "sources", "delta", "error"]
    (told,) = stream.named("error")
    assert told["code"] == code
    assert "secret" not in told["message"]


def test_a_fault_before_the_first_event_shows_nothing_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Answerer:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(questions, "answerer", fail)
    for headers in ({}, {"Accept": "application/json"}):
        stream = asyncio.run(ask(headers=headers))
        assert (stream.status, stream.error_code) == (500, "internal")
        assert b"secret" not in stream.body
        assert b"Traceback" not in stream.body


@pytest.mark.parametrize("pause_s", [pytest.param(0.02, id="busy"), pytest.param(30.0, id="silent")])
def test_the_deadline_ends_the_stream_with_an_event(
    monkeypatch: pytest.MonkeyPatch, project: Project, pause_s: float
) -> None:
    use(monkeypatch, project, ScriptedGenerator(["word "] * 10_000, pause_s=pause_s))
    stream = asyncio.run(ask(deadline_in_s=sse.DEADLINE_MARGIN_S + 1.5))
    assert stream.named("error") == [
        {"code": "deadline_exceeded", "message": "The answer took longer than this call may; ask again."}
    ]
    assert [event.name for event in stream.events][:3] == ["meta", "sources", "delta"]
    assert stream.received[-1].at < 15


@pytest.mark.parametrize("headers", [{}, {"Accept": "application/json"}])
def test_a_deadline_before_the_first_event_is_a_status(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    def load() -> Answerer:
        time.sleep(5)
        raise AssertionError("nobody waits for this")

    monkeypatch.setattr(questions, "answerer", load)
    stream = asyncio.run(ask(headers=headers, deadline_in_s=sse.DEADLINE_MARGIN_S + 0.2))
    assert (stream.status, stream.error_code) == (503, "deadline_exceeded")


def test_a_reader_who_leaves_stops_the_generator(monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    generator = ScriptedGenerator(["word "] * 1_000, pause_s=0.02)
    use(monkeypatch, project, generator)
    asyncio.run(ask(leave_after=4))
    assert generator.closed.wait(60)
    assert generator.said < 500


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param({"question": ""}, "invalid_query", id="empty"),
        pytest.param({"question": "!!!"}, "invalid_query", id="symbols"),
        pytest.param({"question": "\u200b"}, "invalid_query", id="invisible"),
        pytest.param({"question": "🙂"}, "invalid_query", id="emoji"),
        pytest.param({"question": "a" * 8_001}, "invalid_query", id="too long"),
        pytest.param({"question": "a", "layers": ["X1"]}, "unknown_layer", id="unknown layer"),
        pytest.param({"question": "a", "session_id": "other"}, "invalid_request", id="a field that does not exist"),
        pytest.param({"question": "a", "limit": 999}, "invalid_request", id="limit"),
        pytest.param({"question": "a", "limit": "5"}, "invalid_request", id="a number in quotes"),
        pytest.param({"question": "a", "limit": True}, "invalid_request", id="a truth as a number"),
        pytest.param({"question": "a", "limit": 2.0}, "invalid_request", id="a number with a point"),
        pytest.param({"question": "a", "prefer_non_tests": "yes"}, "invalid_request", id="a word as a truth"),
        pytest.param({}, "invalid_request", id="no question"),
        pytest.param("{not json", "invalid_request", id="no JSON"),
        pytest.param('{"question": "\\ud800"}', "invalid_query", id="half a character"),
        pytest.param("[1]", "invalid_request", id="a list"),
    ],
)
def test_a_bad_question_is_refused_with_a_reason(body: object, code: str, project: Project) -> None:
    for headers in ({}, {"Accept": "application/json"}):
        stream = asyncio.run(ask(body=body, headers=headers))
        assert (stream.status, stream.error_code) == (422, code)
    assert project.search.requests == []


@pytest.mark.parametrize("path", [QUERY, RETRIEVE])
def test_without_claims_nobody_is_answered(path: str) -> None:
    for claims in (None, {}, {"sub": "ann"}, {"tenant": "acme"}):
        stream = asyncio.run(ask(path, claims=claims))
        assert (stream.status, stream.error_code) == (401, "unauthenticated")


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"sub": "bob", "tenant": "acme"}, id="no reader"),
        pytest.param({"sub": "ann", "tenant": "other"}, id="another tenant"),
    ],
)
def test_another_ones_session_looks_like_none(claims: dict[str, str]) -> None:
    asyncio.run(ask())  # fills the cache
    question = {"layers": ["D3"], "path_prefixes": ["docs/"]}
    for session in ("demo", "no-such-session", "a%20b"):
        for route, text in (("query", "question"), ("retrieve", "query")):
            stream = asyncio.run(
                ask(
                    f"/api/rag/sessions/{session}/{route}",
                    {text: "How long does a lease last?", **question},
                    claims=claims,
                )
            )
            assert (stream.status, stream.error_code) == (404, "session_not_found")
            for secret in (*INDEXING_DOCS, "lease", "hashed"):
                assert secret.encode() not in stream.body


def test_a_revoked_reader_is_not_found_though_the_answer_is_cached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Project(readers=["user:bob"])
    use(monkeypatch, shared)
    bob = {"sub": "bob", "tenant": "acme"}
    assert asyncio.run(ask(claims=bob)).status == 200
    shared.let_read()
    stream = asyncio.run(ask(claims=bob))
    assert (stream.status, stream.error_code) == (404, "session_not_found")


def test_rows_come_with_every_ranking_field() -> None:
    stream = asyncio.run(ask(RETRIEVE, {"query": "How long does a lease last?", "limit": 2}))
    found = json.loads(stream.body)
    assert (found["session_id"], found["generation"], found["embedding_model"]) == ("demo", 1, "hashed-256")
    assert len(found["rows"]) == 2
    assert set(found["rows"][0]) == {
        *("path", "layer", "title", "content", "metadata", "span_start", "span_end", "score", "dense_rank", "distance"),
        *("lexical_rank", "bm25", "prefer_bonus", "test_penalty", "layer_rank", "blob_sha", "chunk_id"),
        *("exact_rank", "structural_rank", "also", "explain"),
    }


async def _plain(method: str, path: str, claims: Mapping[str, Any] | None = None) -> httpx.Response:
    async with client(claims=claims) as opened:
        return await opened.request(method, path)


def test_health_is_public_and_has_a_head() -> None:
    shown = asyncio.run(_plain("GET", "/health"))
    assert (shown.status_code, shown.json()["status"]) == (200, "ok")
    head = asyncio.run(_plain("HEAD", "/health"))
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("path", [QUERY, RETRIEVE])
def test_options_are_answered_without_a_body(path: str) -> None:
    reply = asyncio.run(_plain("OPTIONS", path))
    assert (reply.status_code, reply.content) == (204, b"")
    assert "POST" in reply.headers["allow"]


def files(query: str = "", session: str = SESSION_ID, claims: Mapping[str, Any] | None = ANN) -> httpx.Response:
    return asyncio.run(_plain("GET", f"/api/rag/sessions/{session}/files{query}", claims))


def test_files_are_read_page_by_page_and_by_readers_alone(project: Project) -> None:
    whole = files().json()
    paths = [file["path"] for file in whole["files"]]
    assert len(paths) > 1
    assert paths == sorted(paths)
    assert (whole["session_id"], whole["next"]) == (SESSION_ID, paths[-1])
    assert all(set(file) == {"path", "blob_sha", "text"} and file["text"] for file in whole["files"])
    first = files("?limit=1").json()
    assert [file["path"] for file in first["files"]] == paths[:1]
    assert [file["path"] for file in files(f"?after={first['next']}").json()["files"]] == paths[1:]
    assert files(f"?after={paths[-1]}").json() == {"session_id": SESSION_ID, "files": [], "next": None}
    assert files(claims=None).status_code == 401
    for unknown in ("nothing", "No%20Name"):
        assert files(session=unknown).json()["error"]["code"] == "session_not_found"


@pytest.mark.parametrize("query", ["?limit=0", "?limit=101", "?limit=x", "?after=../up", f"?after={'x' * 1_001}"])
def test_a_page_that_can_not_be_is_refused(query: str) -> None:
    assert files(query).status_code == 422


def test_half_a_character_in_a_file_is_no_obstacle(project: Project) -> None:
    (first, *_) = project.search.chunks[SESSION_ID]
    broken = replace(first, source="broken \ud800 text")
    project.search.chunks[SESSION_ID] = [broken]
    assert files().json()["files"][0]["text"] == "broken ? text"


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("GET", QUERY, 405)])
def test_other_routes_and_methods_are_errors_in_json(method: str, path: str, status: int) -> None:
    reply = asyncio.run(_plain(method, path, ANN))
    assert reply.status_code == status
    assert set(reply.json()["error"]) == {"code", "message"}


def test_the_document_of_the_api_names_both_forms_of_an_answer() -> None:
    document = APP.openapi()
    content = document["paths"]["/api/rag/sessions/{session_id}/query"]["post"]["responses"]["200"]["content"]
    assert set(content) == {"application/json", "text/event-stream"}
