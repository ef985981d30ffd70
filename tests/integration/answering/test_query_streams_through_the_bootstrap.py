"""The query function under its bootstrap, as Lambda runs it: every route streams, and deltas arrive apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strata_client.sse import SseParser
from strata_local.invocations import Ended, Failed, Invocation, Part, Piece, Started
from strata_local.runtime_api import RuntimeApi
from tests.support.lambda_events import ANN, rest_event
from tests.support.sleeping_query import DELTAS, PAUSE_S
from tests.support.waiting import assert_apart

ROOT = Path(__file__).parents[3]
QUERY = "/api/rag/sessions/demo/query"
Ask = Callable[..., list[tuple[float, Part]]]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Sends an event to a running function and gives every part of its reply with the second at which it came."""
    api = RuntimeApi(function_arn="arn:aws:lambda:eu-west-1:123456789012:function:Query")
    folder = ROOT / "tests/support/sleeping_query"
    environment = {
        "PATH": os.environ["PATH"],
        "AWS_LAMBDA_RUNTIME_API": api.address,
        "LAMBDA_TASK_ROOT": str(folder),
        "_HANDLER": "app.app",
        "PYTHONPATH": f"{ROOT / 'layers/common'}:{ROOT}",
    }
    process = subprocess.Popen([str(ROOT / "functions/query/bootstrap"), sys.executable], env=environment, cwd=folder)

    def send(method: str, path: str, *, timeout_s: float = 30, **event: Any) -> list[tuple[float, Part]]:
        invocation = Invocation(json.dumps(rest_event(method, path, **event)).encode(), timeout_s=timeout_s)
        started = time.monotonic()
        api.submit(invocation)
        parts: list[tuple[float, Part]] = []
        while not (parts and isinstance(parts[-1][1], Ended | Failed)):
            part = invocation.next_part(30)
            assert part is not None, "the reply does not end"
            parts.append((time.monotonic() - started, part))
        return parts

    send("GET", "/health")  # the start of the process is not what is measured
    yield send
    process.kill()
    process.wait()
    api.close()


def reply(parts: list[tuple[float, Part]]) -> tuple[int, bytes]:
    started = parts[0][1]
    assert isinstance(started, Started)
    assert parts[-1][1] == Ended()
    return started.status, b"".join(part.data for _, part in parts if isinstance(part, Piece))


def test_deltas_arrive_apart(ask: Ask) -> None:
    parts = ask("POST", QUERY, body={"question": "How long does a lease last?"})
    arrived = [at for at, part in parts if isinstance(part, Piece) and b"event: delta" in part.data]
    assert len(arrived) == DELTAS
    assert_apart(arrived, PAUSE_S)
    for _, part in parts:
        if isinstance(part, Piece):
            part.data.decode()  # no character is cut
    events = SseParser().feed(reply(parts)[1])
    assert [event.name for event in events] == ["meta", "sources", *["delta"] * DELTAS, "done"]
    assert json.loads(events[-1].data)["abstained"]


def test_the_deadline_of_the_function_ends_the_stream_with_an_event(ask: Ask) -> None:
    parts = ask("POST", QUERY, body={"question": "How long does a lease last?"}, timeout_s=2.6)
    events = SseParser().feed(reply(parts)[1])
    assert json.loads(events[-1].data)["code"] == "deadline_exceeded"
    assert events[-1].name == "error"
    assert 2 < len(events) < DELTAS


@pytest.mark.parametrize(
    ("method", "path", "event", "status", "body"),
    [
        pytest.param("GET", "/health", {}, 200, b'"status":"ok"', id="health"),
        pytest.param("HEAD", "/health", {}, 200, None, id="HEAD"),
        pytest.param("OPTIONS", QUERY, {}, 204, None, id="OPTIONS"),
        pytest.param("POST", QUERY, {"claims": None, "body": {"question": "a"}}, 401, b"unauthenticated", id="401"),
        pytest.param("GET", "/nothing", {}, 404, b"route_not_found", id="404"),
        pytest.param(
            "POST", QUERY.replace("demo", "x"), {"body": {"question": "a"}}, 404, b"session_not", id="session"
        ),
        pytest.param("POST", QUERY, {"body": {"question": "!!!"}}, 422, b"invalid_query", id="422"),
        pytest.param(
            "POST",
            "/api/rag/sessions/demo/retrieve",
            {"body": {"query": "lease"}, "claims": ANN},
            200,
            b'"rows":[{',
            id="retrieve",
        ),
    ],
)
def test_every_route_is_a_whole_streamed_reply(
    ask: Ask, *, method: str, path: str, event: dict[str, Any], status: int, body: bytes | None
) -> None:
    got_status, got_body = reply(ask(method, path, **event))
    assert got_status == status
    assert (got_body == b"") if body is None else (body in got_body)
