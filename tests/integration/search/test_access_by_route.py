"""Every route of the API, as a stranger, a reader and an owner: nobody is told of what they may not read.

A reply is looked through as text, headers included. What a stranger hears of a session or a job is, to the letter,
what everybody hears of one that was never there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from strata.edge.http import mangum_handler
from strata.indexing.drift import DriftReporter
from strata.indexing.linked import LinkFinder
from strata.jobs.naming import letter_id_of_object
from strata.model.access import INTERNAL_SCOPE, Identity
from strata.model.jobs import DeadLetter, JobStatus
from tests.integration.search.test_access_everywhere import PEOPLE, SESSIONS, World
from tests.support.fake_clock import FakeClock
from tests.support.fake_objects import FakeObjectStore
from tests.support.fake_workers import FakeWorkerCalls
from tests.support.lambda_events import Reply, call, load_function, rest_event
from tests.support.postgres import TestDatabase
from tests.support.search_rows import SearchRows
from tests.support.use_cases import behind_bootstrap, job_use_cases

OPENAPI = Path(__file__).parents[3] / "docs" / "openapi.json"
QUESTION = "How many seconds does the lease last? See word1."
LINE = [{"op": "upsert", "path": "notes.md", "content": "x"}]
LINKED = ("src/file001.md", *(f"pkg.name{number:03}" for number in range(1, 40, 5)))
JOB, LETTER, NOTHING = "job-{:a<26}", "letter-{:b<26}", "nothing"


@dataclass(frozen=True)
class Route:
    """How to call it; `changes` the world, so that a caller who may do that does not do it here."""

    function: str
    body: object = None
    query: dict[str, str] | None = None
    accept: str = "application/json"
    changes: bool = False


SESSION = "/api/rag/sessions/{session_id}"
ROUTES: dict[str, tuple[Route, ...]] = {
    f"POST {SESSION}/query": tuple(
        Route("query", {"question": QUESTION}, accept=accept) for accept in ("application/json", "text/event-stream")
    ),
    f"POST {SESSION}/retrieve": (
        Route("query", {"query": QUESTION, "limit": 50, "explain": True}),
        Route("query", {"query": QUESTION, "limit": 50, "layers": ["D2"]}),
    ),
    f"GET {SESSION}/files": (Route("query"), Route("query", query={"after": "src/app", "limit": "1"})),
    f"OPTIONS {SESSION}/query": (Route("query"),),
    f"OPTIONS {SESSION}/retrieve": (Route("query"),),
    f"OPTIONS {SESSION}/files": (Route("query"),),
    "GET /health": (Route("query"),),
    "HEAD /health": (Route("query"),),
    "GET /api/rag/sessions": (Route("job_status"),),
    f"GET {SESSION}": (Route("job_status"),),
    f"GET {SESSION}/jobs": (Route("job_status"),),
    f"GET {SESSION}/drift": (Route("job_status"),),
    f"GET {SESSION}/links": tuple(Route("job_status", query={"name": name}) for name in LINKED),
    "GET /api/rag/jobs": (Route("job_status", query={"status": "failed"}),),
    "GET /api/rag/jobs/{job_id}": (Route("job_status"),),
    "GET /api/rag/jobs/{job_id}/events": (
        Route("job_status", query={"wait_s": "0"}),
        Route("job_status", query={"wait_s": "0", "after": "99"}),
    ),
    "POST /api/rag/jobs/{job_id}/cancel": (Route("job_status"),),
    "POST /api/rag/jobs/{job_id}/retry": (Route("job_status"),),
    "POST /api/rag/sessions": (Route("index_snapshot", {"session_id": "{session_id}", "files": []}),),
    f"PATCH {SESSION}": (Route("index_snapshot", {"readers": ["group:red"]}, changes=True),),
    f"DELETE {SESSION}": (Route("index_snapshot", changes=True),),
    f"POST {SESSION}/changes": (Route("index_changes", {"changes": LINE}),),
    f"POST {SESSION}/rollback": (Route("index_changes"),),
    "POST /internal/rag/index/snapshot": (
        Route("index_snapshot", {"session_id": "{session_id}", "files": LINE}, changes=True),
    ),
    "POST /internal/rag/index/changes": (
        Route("index_changes", {"session_id": "{session_id}", "changes": LINE}, changes=True),
    ),
}
TAKES_A_NAME = "POST /api/rag/sessions"
"""A name can be taken, and must not be twice: the one thing that anybody may learn of a session."""


@dataclass
class Api:
    """The functions' handlers over a world; session `one` has a failed job and a dead letter beside its other job."""

    world: World
    handlers: dict[str, Callable[[dict[str, Any], Any], dict[str, Any]]]

    def call(self, caller: Identity, name: str, route: Route, *, session: str, job_id: str) -> Reply:
        method, _, path = name.partition(" ")
        claims = {
            "sub": caller.subject,
            "tenant": caller.tenant,
            "groups": ",".join(caller.groups),
            "scopes": " ".join(caller.scopes),
        }
        body = None if route.body is None else json.dumps(route.body).replace("{session_id}", session)
        event = rest_event(
            method, path.format(session_id=session, job_id=job_id), body=body, claims=claims, query=route.query,
            headers={"Accept": route.accept, "Content-Type": "application/json"},
        )  # fmt: skip
        return call(self.handlers[route.function], event)


@pytest.fixture(scope="module")
def world(module_postgres: TestDatabase) -> Iterator[World]:
    rows = SearchRows(module_postgres)
    world = World(rows, 4)
    for name in SESSIONS:
        done = world.job(name)
        world.jobs.create(replace(done, job_id=JOB.format(f"failed{name}"), status=JobStatus.ERROR))
        key = f"uploads/{name}/secret-letter-of-{name}.zip"
        world.jobs.dead_letter(
            DeadLetter(
                letter_id=letter_id_of_object(key, "v1"), object_key=key, object_version="v1", reason="late",
                created_at=FakeClock().now(), session_id=name, tenant="acme",
            )
        )  # fmt: skip
    yield world
    rows.close()


@pytest.fixture
def api(world: World, monkeypatch: pytest.MonkeyPatch) -> Api:
    fakes = {"clock": FakeClock(), "objects": FakeObjectStore(), "calls": FakeWorkerCalls()}
    behind_bootstrap(
        monkeypatch,
        **job_use_cases(world.rows.sessions, world.jobs.table, **fakes),
        retriever=world.retriever,
        answerer=world.answerer,
        drift_reporter=DriftReporter(links=world.links),
        link_finder=LinkFinder(links=world.links),
    )
    modules = {name: load_function(name) for name in ("query", "job_status", "index_snapshot", "index_changes")}
    return Api(world, {name: mangum_handler(module.app) for name, module in modules.items()})


def failed_ids(session: str) -> list[str]:
    letter = letter_id_of_object(f"uploads/{session}/secret-letter-of-{session}.zip", "v1")
    return [JOB.format(session), JOB.format(f"failed{session}"), letter]


def test_every_route_is_walked() -> None:
    paths = json.loads(OPENAPI.read_text(encoding="utf-8"))["paths"]
    assert {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods} == ROUTES.keys()


@pytest.mark.parametrize("name", ROUTES)
def test_no_reply_tells_of_what_the_caller_may_not_read(api: Api, name: str) -> None:
    world = api.world
    for caller in (*PEOPLE, replace(PEOPLE[3], scopes=(INTERNAL_SCOPE,))):
        readable = [session for session in SESSIONS if world.may_read(caller, session)]
        for session in SESSIONS:
            for route in ROUTES[name]:
                if route.changes and world.rows.twin.sessions[session].writable_by(caller):
                    continue
                for job_id in failed_ids(session) if "{job_id}" in name else [""]:
                    reply = api.call(caller, name, route, session=session, job_id=job_id)
                    assert reply.status < 500
                    text = reply.body + json.dumps(dict(reply.headers))
                    shown = [session] if "{" in name else readable
                    foreign = world.foreign_words(caller, *(one for one in shown if one in readable), said=QUESTION)
                    foreign |= {f"secret-letter-of-{other}" for other in SESSIONS if other not in readable}
                    assert not [word for word in foreign if word in text], f"{name} shows {caller}"


@pytest.mark.parametrize("name", [name for name in ROUTES if "{" in name or "internal" in name])
def test_what_is_not_the_callers_looks_like_nothing_at_all(api: Api, name: str) -> None:
    strangers = [
        (caller, session) for caller in PEOPLE for session in SESSIONS if not api.world.may_read(caller, session)
    ]
    assert strangers
    unknown = [JOB.format(NOTHING), JOB.format(NOTHING), letter_id_of_object("uploads/nothing/x.zip", "v1")]
    for caller, session in strangers:
        for route in ROUTES[name]:
            known = failed_ids(session) if "{job_id}" in name else [""]
            for job_id, other_id in zip(known, unknown, strict=False):
                theirs = api.call(caller, name, route, session=session, job_id=job_id)
                nobodys = api.call(caller, name, route, session=NOTHING, job_id=other_id)
                assert (theirs.status, theirs.body, theirs.headers) == (nobodys.status, nobodys.body, nobodys.headers)
                assert theirs.status in (204, 403, 404)
