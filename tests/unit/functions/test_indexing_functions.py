"""The three buffered functions, called as Lambda calls them, on fakes behind bootstrap."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest

from strata.indexing.drift import DriftReporter
from strata.jobs.mailbox import Mailbox
from strata.jobs.sweeping import Sweep
from strata.jobs.worker import UploadWorker
from strata.model.corpus import ReportedFile
from strata.model.jobs import Counters, JobReport
from tests.support.fakes import FakeSessionStore
from tests.support.job_fakes import (
    FakeClock,
    FakeJobStore,
    FakeJobTable,
    FakeObjectStore,
    FakeRunner,
    FakeSessionLock,
    FakeWorkerCalls,
    job_id,
)
from tests.support.lambda_events import ANN, LambdaContext, Reply, call, load_function, rest_event, s3_event
from tests.support.link_fakes import FakeLinkReader
from tests.support.use_cases import behind_bootstrap, job_use_cases

BOB = {"sub": "bob", "tenant": "acme", "groups": "readers", "scopes": ""}
EVE = {"sub": "eve", "tenant": "acme", "groups": "", "scopes": ""}
OTHER_ANN = {"sub": "ann", "tenant": "other", "groups": "readers", "scopes": ""}
COUNTERS = {
    "indexed_files": 2,
    "failed_files": 1,
    "cache_hit_files": 0,
    "cache_miss_files": 2,
    "skipped_files": 1,
    "deleted_files": 0,
}
REPORT = JobReport(
    counters=Counters(**COUNTERS),
    chunks=9,
    generation=1,
    skipped=(ReportedFile(path="a.bin", reason="binary"),),
    failed=(ReportedFile(path="b.md", reason="not text"),),
    notes=(ReportedFile(path="c.py", reason="no symbols", line=3),),
    note_count=1,
)


@dataclass
class Cloud:
    """The functions and what they work on."""

    snapshot: ModuleType
    changes: ModuleType
    status: ModuleType
    table: FakeJobTable
    objects: FakeObjectStore
    runner: FakeRunner
    clock: FakeClock
    calls: FakeWorkerCalls

    def open(self, body: object, **event: Any) -> Reply:
        return call(self.snapshot.http, rest_event("POST", "/api/rag/sessions", body=body, **event))

    def change(self, body: object, *, session_id: str = "docs", **event: Any) -> Reply:
        path = f"/api/rag/sessions/{session_id}/changes"
        return call(self.changes.http, rest_event("POST", path, body=body, **event))

    def get(self, path: str, **event: Any) -> Reply:
        return call(self.status.http, rest_event("GET", path, **event))

    def obey(self) -> None:
        """Do what workers were called for."""
        while self.calls.orders:
            order = self.calls.orders.pop(0)
            event = {"strata": {"session_id": order.session_id, "job_id": order.job_id}}
            self.changes.on_changes(event, LambdaContext())

    def delete(self, session_id: str = "docs", **event: Any) -> Reply:
        return call(self.snapshot.http, rest_event("DELETE", f"/api/rag/sessions/{session_id}", **event))

    def act(self, job: dict[str, Any] | str, action: str, **event: Any) -> Reply:
        job_id = job if isinstance(job, str) else job["job_id"]
        return call(self.status.http, rest_event("POST", f"/api/rag/jobs/{job_id}/{action}", **event))

    def failures(self, **event: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/api/rag/jobs", query={"status": "failed"}, **event).json
        return found

    def upload(self, key: str, *, version: str = "v1") -> None:
        handler = self.snapshot.on_upload if key.startswith("uploads/") else self.changes.on_changes
        assert handler(s3_event(key, version=version), LambdaContext()) is None


@pytest.fixture(scope="module")
def modules() -> tuple[ModuleType, ModuleType, ModuleType]:
    return load_function("index_snapshot"), load_function("index_changes"), load_function("job_status")


@pytest.fixture
def cloud(modules: tuple[ModuleType, ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch) -> Cloud:
    clock = FakeClock()
    table = FakeJobTable(clock=clock)
    sessions, jobs, objects = FakeSessionStore(), FakeJobStore(table), FakeObjectStore()
    runner = FakeRunner(work=lambda _job, _lease, _progress: REPORT)
    calls = FakeWorkerCalls()
    built: dict[str, Any] = job_use_cases(sessions, table, clock=clock, objects=objects, calls=calls)
    mailbox = Mailbox(
        sessions=sessions,
        jobs=jobs,
        lock=FakeSessionLock(table),
        keeper=built["session_keeper"],
        runner=lambda: runner,
        clock=clock,
        lease=timedelta(seconds=60),
    )
    behind_bootstrap(
        monkeypatch,
        **built,
        upload_worker=UploadWorker(lifecycle=built["lifecycle"], jobs=jobs, mailbox=mailbox, calls=calls),
        sweep=Sweep(jobs=jobs, objects=objects, calls=calls, clock=clock),
        drift_reporter=DriftReporter(links=FakeLinkReader(sessions)),
    )
    snapshot, changes, status = modules
    return Cloud(snapshot, changes, status, table, objects, runner, clock, calls)


def opened(cloud: Cloud, **body: Any) -> dict[str, Any]:
    reply = cloud.open({"session_id": "docs", "readers": ["group:readers"], **body})
    assert reply.status in (200, 201)
    answer: dict[str, Any] = reply.json
    return answer


def test_a_snapshot_from_opening_to_the_last_event(cloud: Cloud) -> None:
    answer = opened(cloud)
    job, upload = answer["job"], answer["upload"]
    assert answer["session"] == {
        "session_id": "docs",
        "project_id": "docs",
        "repo_id": "docs",
        "owner": "user:ann",
        "readers": ["group:readers"],
        "generation": 0,
        "embedding_model": "hashed-256",
        "dimension": 256,
    }
    assert upload["key"] == f"uploads/docs/{job['job_id']}.tar.gz"
    assert (upload["fields"]["key"], upload["expires_in_s"]) == (upload["key"], 60)
    assert (job["status"], job["seq"], job["error"]) == ("awaiting_upload", None, None)

    cloud.upload(upload["key"])
    ended = cloud.get(job["links"]["self"]).json
    assert ended == job | {
        "status": "done",
        "seq": 1,
        "counters": COUNTERS,
        "chunks": 9,
        "generation": 1,
        "skipped": [{"path": "a.bin", "reason": "binary"}],
        "failed": [{"path": "b.md", "reason": "not text"}],
        "notes": [{"path": "c.py", "line": 3, "reason": "no symbols"}],
        "note_count": 1,
        "updated_at": ended["updated_at"],
    }
    assert cloud.get("/api/rag/sessions/docs/jobs").json == {"jobs": [ended]}

    events = cloud.get(job["links"]["events"], query={"after": "0"})
    assert events.headers["content-type"].startswith("text/event-stream")
    frames = events.body.split("\n\n")
    assert [frame.split("\n")[:2] for frame in frames[:3]] == [
        ["id: 1", "event: index_status"],
        ["id: 2", "event: index_status"],
        ["id: 3", "event: terminal"],
    ]
    assert json.loads(frames[2].split("data: ")[1]) == ended
    assert frames[3:] == ["retry: 500", ""]
    assert cloud.get(job["links"]["events"], headers={"Last-Event-ID": "3"}).status == 204


def test_opening_is_201_for_a_new_session_and_200_for_ones_own(cloud: Cloud) -> None:
    assert [cloud.open({"session_id": "docs"}).status for _ in range(2)] == [201, 200]
    assert cloud.open({}).json["session"]["session_id"].startswith("session-")


def test_a_request_with_files_is_a_whole_upload(cloud: Cloud) -> None:
    files: list[dict[str, Any]] = [
        {"path": "a.md", "content": "# Привет\n", "acl": [], "last_modified": "2026-11-30T12:00:00+03:00"},
        {"path": "./b//c.bin", "content_b64": base64.b64encode(b"\x00\xff").decode()},
        {"path": "d.md", "content_hash": "0" * 64, "acl": None},
    ]
    answer = opened(cloud, files=files)
    assert answer["upload"] is None
    assert (answer["job"]["status"], answer["job"]["seq"]) == ("queued", 1)
    ((key, content),) = cloud.objects.objects.items()
    assert key == f"uploads/docs/{answer['job']['job_id']}.jsonl"
    assert [json.loads(line) for line in content.splitlines()] == [
        files[0],
        files[1] | {"path": "b/c.bin"},
        files[2],
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({"session_id": "a/b"}, "session_id: must be 1 to 100 letters, digits,", id="a session's name"),
        pytest.param({"session_id": "a\n"}, "session_id: must be 1 to 100 letters, digits,", id="a line end in it"),
        pytest.param({"readers": ["bob"]}, "readers.0: must be `user:NAME` or `group:NAME`,", id="a reader"),
        pytest.param({"readers": ["user:a,group:b"]}, "readers.0: must be `user:NAME`", id="two readers in one"),
        pytest.param(
            {"files": [{"path": "a", "content_hash": "F" * 64}]},
            "files.0.content_hash: must be a SHA-256 in",
            id="hash",
        ),
        pytest.param({"files": [{"path": "a"}]}, "files.0: give `content`, `content_b64` or", id="no content"),
        pytest.param({"files": [{"path": "../a", "content": ""}]}, "'../a' leaves the project.", id="a path"),
    ],
)
def test_a_refusal_says_in_words_what_would_do(cloud: Cloud, body: dict[str, Any], message: str) -> None:
    reply = cloud.open(body)
    assert reply.status == 422
    assert reply.json["error"]["message"].startswith(message)


def test_changes_are_accepted_stored_and_worked(cloud: Cloud) -> None:
    opened(cloud)
    changes = [{"op": "upsert", "path": "a.md", "content": "x"}, {"op": "delete", "path": "b.md"}]
    reply = cloud.change({"changes": changes})
    assert reply.status == 202
    job = reply.json["job"]
    assert (job["kind"], job["status"], job["seq"]) == ("changes", "queued", 1)
    key = f"changes/docs/{job['job_id']}.jsonl"
    assert [json.loads(line) for line in cloud.objects.objects[key].splitlines()] == changes
    cloud.upload(key)
    assert cloud.get(job["links"]["self"]).json["status"] == "done"


def test_one_notification_delivered_three_times_is_one_job(cloud: Cloud) -> None:
    answer = opened(cloud)
    for _ in range(3):
        cloud.upload(answer["upload"]["key"])
    assert len(cloud.runner.ran) == 1
    job = cloud.get(answer["job"]["links"]["self"]).json
    assert (job["status"], job["counters"]) == ("done", COUNTERS)
    assert len(cloud.get("/api/rag/sessions/docs/jobs").json["jobs"]) == 1


def test_an_upload_for_no_session_is_a_dead_letter(cloud: Cloud) -> None:
    cloud.upload("uploads/nobody/this im + age blah.zip")
    assert [letter.object_key for letter in cloud.table.dead_letters.values()] == [
        "uploads/nobody/this im + age blah.zip"
    ]


def test_a_foreign_upload_is_worked_under_its_true_name(cloud: Cloud) -> None:
    opened(cloud)
    cloud.upload("uploads/docs/this im + age blah.zip")
    assert cloud.runner.formats == ["zip"]
    done = [found for found in cloud.table.jobs.values() if found.seq is not None]
    assert [found.object_key for found in done] == ["uploads/docs/this im + age blah.zip"]


def test_a_failed_job_shows_its_cause(cloud: Cloud) -> None:
    from strata.errors import UnsafeEntry

    def unsafe(*_: object) -> JobReport:
        raise UnsafeEntry("The entry '../x' leaves the project.")

    cloud.runner.work = unsafe
    answer = opened(cloud)
    cloud.upload(answer["upload"]["key"])
    job = cloud.get(answer["job"]["links"]["self"]).json
    assert job["status"] == "error"
    assert job["error"] == {"code": "unsafe_entry", "message": "The entry '../x' leaves the project."}


def test_a_test_event_of_s3_is_passed_over(cloud: Cloud) -> None:
    for handler in (cloud.snapshot.on_upload, cloud.changes.on_changes):
        assert handler({"Service": "Amazon S3", "Event": "s3:TestEvent"}, LambdaContext()) is None


def test_a_worker_out_of_time_calls_the_next_one(cloud: Cloud) -> None:
    answer = opened(cloud)
    cloud.snapshot.on_upload(s3_event(answer["upload"]["key"]), replace(LambdaContext(), remaining_ms=1_000))
    assert cloud.get(answer["job"]["links"]["self"]).json["status"] == "queued"
    cloud.obey()
    assert cloud.get(answer["job"]["links"]["self"]).json["status"] == "done"


@pytest.mark.parametrize(
    ("claims", "status"),
    [(ANN, 200), (BOB, 200), (EVE, 404), (OTHER_ANN, 404), (None, 401), ({}, 401)],
    ids=["owner", "reader", "stranger", "other tenant", "nobody", "no claims"],
)
def test_only_readers_see_a_session_and_its_jobs(cloud: Cloud, claims: Any, status: int) -> None:
    job = opened(cloud)["job"]
    for path in (
        "/api/rag/sessions/docs",
        "/api/rag/sessions/docs/jobs",
        "/api/rag/sessions/docs/drift",
        job["links"]["self"],
        job["links"]["events"],
    ):
        reply = cloud.get(path, claims=claims, query={"wait_s": "0"})
        assert reply.status == status, path
        if status != 200:
            assert reply.error_code in ("unauthenticated", "session_not_found", "job_not_found")
    listed = cloud.get("/api/rag/sessions", claims=claims)
    assert listed.status == (401 if status == 401 else 200)
    if listed.status == 200:
        assert len(listed.json["sessions"]) == (1 if status == 200 else 0)


def test_drift_is_told_by_place_and_kind(cloud: Cloud) -> None:
    opened(cloud)
    assert cloud.get("/api/rag/sessions/docs/drift").json == {
        "session_id": "docs",
        "drift": [
            {"path": "docs/a.md", "line": 3, "kind": "symbol", "name": "shop.Gone", "known": "shop"},
            {"path": "docs/a.md", "line": 9, "kind": "file", "name": "src/gone.py", "known": None},
        ],
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("claims", "status", "code"),
    [(BOB, 404, "session_not_found"), (EVE, 404, "session_not_found"), (None, 401, "unauthenticated")],
    ids=["reader", "stranger", "nobody"],
)
def test_only_the_owner_changes_a_session(cloud: Cloud, claims: Any, status: int, code: str) -> None:
    opened(cloud)
    reply = cloud.change({"changes": [{"op": "delete", "path": "a"}]}, claims=claims)
    assert (reply.status, reply.error_code) == (status, code)
    assert cloud.objects.objects == {}


def test_the_name_of_anothers_session_is_taken(cloud: Cloud) -> None:
    opened(cloud)
    reply = cloud.open({"session_id": "docs"}, claims=BOB)
    assert (reply.status, reply.error_code) == (409, "session_name_taken")


def test_identity_comes_from_the_authorizer_alone(cloud: Cloud) -> None:
    headers = {"sub": "ann", "tenant": "acme", "Authorization": "Bearer x"}
    assert cloud.get("/api/rag/sessions", claims=None, headers=headers).status == 401
    assert cloud.open({"session_id": "docs", "owner": "user:eve"}).status == 422


@pytest.mark.parametrize(
    "path",
    [
        "/api/rag/sessions/unknown",
        "/api/rag/sessions/a b",
        "/api/rag/sessions/..",
        "/api/rag/sessions/x\x00y",
        "/api/rag/sessions/unknown/jobs",
        "/api/rag/sessions/unknown/drift",
        "/api/rag/sessions/x\x00y/drift",
        f"/api/rag/jobs/{job_id(404)}",
        f"/api/rag/jobs/{job_id(404)}/events",
        "/api/rag/jobs/1",
        "/api/rag/jobs/" + "x" * 5_000,
        "/api/rag/jobs/%00",
        "/api/rag/nothing",
        "/",
    ],
)
def test_what_is_not_there_is_404(cloud: Cloud, path: str) -> None:
    reply = cloud.get(path)
    assert reply.status == 404
    assert reply.error_code in ("session_not_found", "job_not_found", "route_not_found")


def test_a_roll_back_is_accepted_and_worked(cloud: Cloud) -> None:
    opened(cloud)
    reply = call(cloud.changes.http, rest_event("POST", "/api/rag/sessions/docs/rollback"))
    job = reply.json["job"]
    assert (reply.status, job["kind"], job["status"]) == (202, "rollback", "queued")
    cloud.upload(f"changes/docs/{job['job_id']}.jsonl")
    assert cloud.runner.formats == ["rollback"]
    assert cloud.get(job["links"]["self"]).json["status"] == "done"
    unknown = call(cloud.changes.http, rest_event("POST", "/api/rag/sessions/nobody/rollback"))
    assert (unknown.status, unknown.error_code) == (404, "session_not_found")


def test_changes_of_an_unknown_session_are_404(cloud: Cloud) -> None:
    reply = cloud.change({"changes": [{"op": "delete", "path": "a"}]}, session_id="unknown")
    assert (reply.status, reply.error_code) == (404, "session_not_found")


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH"])
def test_a_method_that_no_route_has_is_405(cloud: Cloud, method: str) -> None:
    for handler in (cloud.snapshot.http, cloud.status.http):
        reply = call(handler, rest_event(method, "/api/rag/sessions"))
        assert (reply.status, reply.error_code) == (405, "method_not_allowed")


FILE: dict[str, object] = {"path": "a.md", "content": "x"}
BAD_SNAPSHOTS: dict[str, object] = {
    "no body": None,
    "no JSON": "{",
    "a list": [],
    "binary": b"\xff\x00",
    "an unknown field": {"tenant": "other"},
    "a session name with a slash": {"session_id": "a/b"},
    "a session name that is too long": {"session_id": "a" * 101},
    "a session name that ends with a line": {"session_id": "docs\n"},
    "an unknown format": {"format": "rar"},
    "a reader that is no principal": {"readers": ["ann"]},
    "a reader with a comma": {"readers": ["group:a,b"]},
    "a number for a name": {"session_id": 7},
    "no files at all": {"files": []},
    "a file without a path": {"files": [{"content": "x"}]},
    "a file without content": {"files": [{"path": "a.md"}]},
    "a file with two contents": {"files": [FILE | {"content_b64": "eA=="}]},
    "a file in broken base64": {"files": [{"path": "a.md", "content_b64": "%%%"}]},
    "a hash that is none": {"files": [FILE | {"content_hash": "abc"}]},
    "a time without a zone": {"files": [FILE | {"last_modified": "2026-11-30T12:00:00"}]},
    "an operation in a snapshot": {"files": [FILE | {"op": "delete"}]},
    "a reader with a NUL": {"readers": ["user:a\x00"]},
    "a reader with half a character": '{"readers": ["user:\\udc00"]}',
    "half a character in a name": '{"files": [{"path": "a.md", "content": "", "acl": ["user:\\udc00"]}]}',
    "half a character": '{"files": [{"path": "a.md", "content": "\\ud800"}]}',
}


@pytest.mark.parametrize("body", BAD_SNAPSHOTS.values(), ids=BAD_SNAPSHOTS.keys())
def test_a_bad_snapshot_request_is_422_and_makes_nothing(cloud: Cloud, body: object) -> None:
    reply = cloud.open(body)
    assert (reply.status, reply.error_code) == (422, "invalid_request")
    assert cloud.table.jobs == {}


BAD_CHANGES: dict[str, object] = {
    "no body": None,
    "no changes": {"changes": []},
    "no list": {"changes": {}},
    "an unknown operation": {"changes": [{"op": "rename", "path": "a"}]},
    "no operation": {"changes": [FILE]},
    "an upsert without content": {"changes": [{"op": "upsert", "path": "a"}]},
    "a delete with content": {"changes": [{"op": "delete", "path": "a", "content": "x"}]},
    "an unknown field": {"changes": [{"op": "delete", "path": "a"}], "force": True},
}


@pytest.mark.parametrize("body", BAD_CHANGES.values(), ids=BAD_CHANGES.keys())
def test_bad_changes_are_422_and_make_nothing(cloud: Cloud, body: object) -> None:
    opened(cloud)
    reply = cloud.change(body)
    assert (reply.status, reply.error_code) == (422, "invalid_request")
    assert len(cloud.table.jobs) == 1


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "C:/x", "a\\b", "", "a/", "x" * 1_001, "a\x00b"])
def test_a_path_that_leaves_the_project_is_refused_at_once(cloud: Cloud, path: str) -> None:
    opened(cloud)
    makers: tuple[Callable[[], Reply], ...] = (
        lambda: cloud.open({"session_id": "docs", "files": [{"path": path, "content": "x"}]}),
        lambda: cloud.change({"changes": [{"op": "delete", "path": path}]}),
    )
    for make in makers:
        reply = make()
        assert (reply.status, reply.error_code) == (422, "invalid_path")
    assert cloud.objects.objects == {}


def test_more_than_a_request_may_carry_is_413(cloud: Cloud) -> None:
    opened(cloud)
    large = "x" * 10_001
    for reply in (
        cloud.open({"session_id": "docs", "files": [{"path": "a.md", "content": large}]}),
        cloud.change({"changes": [{"op": "upsert", "path": "a.md", "content": large}]}),
    ):
        assert (reply.status, reply.error_code) == (413, "upload_too_large")
    assert cloud.objects.objects == {}


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ({"after": "-1"}, {}),
        ({"after": "x"}, {}),
        ({"wait_s": "21"}, {}),
        ({"wait_s": "-1"}, {}),
        ({"wait_s": "nan"}, {}),
        ({}, {"Last-Event-ID": "x"}),
        ({}, {"Last-Event-ID": "-1"}),
    ],
)
def test_a_bad_question_after_events_is_422(cloud: Cloud, query: dict[str, str], headers: dict[str, str]) -> None:
    job = opened(cloud)["job"]
    reply = cloud.get(job["links"]["events"], query=query, headers=headers)
    assert (reply.status, reply.error_code) == (422, "invalid_request")


def test_events_that_do_not_come_end_with_a_comment(cloud: Cloud) -> None:
    job = opened(cloud)["job"]
    before = cloud.table.clock.monotonic()
    reply = cloud.get(job["links"]["events"], query={"wait_s": "3"})
    assert (reply.status, reply.body) == (200, ": nothing new\n\nretry: 500\n\n")
    assert cloud.table.clock.monotonic() - before == pytest.approx(3)


def test_the_documents_declare_what_the_routes_answer(cloud: Cloud) -> None:
    declared = {
        (module.app.title, method, path): set(operation["responses"])
        for module in (cloud.snapshot, cloud.changes, cloud.status)
        for path, operations in module.app.openapi()["paths"].items()
        for method, operation in operations.items()
    }
    always = {"401", "422", "500", "503"}
    assert declared == {
        ("Strata: snapshots", "post", "/api/rag/sessions"): {"200", "201", "409", "413"} | always,
        ("Strata: snapshots", "patch", "/api/rag/sessions/{session_id}"): {"200", "404"} | always,
        ("Strata: snapshots", "delete", "/api/rag/sessions/{session_id}"): {"204", "404"} | always,
        ("Strata: snapshots", "post", "/internal/rag/index/snapshot"): {"200", "202", "403", "409", "413"} | always,
        ("Strata: changes", "post", "/api/rag/sessions/{session_id}/changes"): {"202", "404", "409", "413"} | always,
        ("Strata: changes", "post", "/api/rag/sessions/{session_id}/rollback"): {"202", "404"} | always,
        ("Strata: changes", "post", "/internal/rag/index/changes"): {"200", "202", "403", "404", "409", "413"} | always,
        ("Strata: jobs", "get", "/api/rag/jobs"): {"200"} | always,
        ("Strata: jobs", "post", "/api/rag/jobs/{job_id}/cancel"): {"202", "404", "409"} | always,
        ("Strata: jobs", "post", "/api/rag/jobs/{job_id}/retry"): {"202", "404", "409"} | always,
        ("Strata: jobs", "get", "/api/rag/sessions"): {"200"} | always,
        ("Strata: jobs", "get", "/api/rag/sessions/{session_id}"): {"200", "404"} | always,
        ("Strata: jobs", "get", "/api/rag/sessions/{session_id}/jobs"): {"200", "404"} | always,
        ("Strata: jobs", "get", "/api/rag/sessions/{session_id}/drift"): {"200", "404"} | always,
        ("Strata: jobs", "get", "/api/rag/jobs/{job_id}"): {"200", "404"} | always,
        ("Strata: jobs", "get", "/api/rag/jobs/{job_id}/events"): {"200", "204", "404"} | always,
    }
    for module in (cloud.snapshot, cloud.changes, cloud.status):
        assert "HTTPValidationError" not in json.dumps(module.app.openapi())


# --- the sweep ------------------------------------------------------------------------------------------------------


def test_the_sweep_calls_a_worker_where_work_waits_and_nobody_is_at_it(cloud: Cloud) -> None:
    opened(cloud)
    job = cloud.change({"changes": [{"op": "delete", "path": "a"}]}).json["job"]
    nothing = {"sessions": 0, "found_uploads": 0, "expired": 0, "failures": 0}
    assert cloud.changes.sweep({}, None) == nothing  # its notification is still on its way
    cloud.clock.sleep(60)
    assert cloud.changes.sweep({}, None) == nothing | {"sessions": 1}
    cloud.obey()
    assert cloud.get(job["links"]["self"]).json["status"] == "done"
    assert cloud.changes.sweep({}, None) == nothing


def test_an_upload_that_never_came_expires_with_a_terminal_event_and_blocks_nobody(cloud: Cloud) -> None:
    job = opened(cloud)["job"]
    changed = cloud.change({"changes": [{"op": "delete", "path": "a"}]}).json["job"]
    cloud.upload(f"changes/docs/{changed['job_id']}.jsonl")
    assert cloud.get(changed["links"]["self"]).json["status"] == "done"
    cloud.clock.sleep(60 + 15 * 60 - 1)
    assert cloud.changes.sweep({}, None)["expired"] == 0
    cloud.clock.sleep(2)
    assert cloud.changes.sweep({}, None)["expired"] == 1
    ended = cloud.get(job["links"]["self"]).json
    assert (ended["status"], ended["error"]["code"], ended["seq"]) == ("expired", "upload_expired", None)
    assert "event: terminal" in cloud.get(job["links"]["events"], query={"wait_s": "0"}).body
    assert cloud.changes.sweep({}, None)["expired"] == 0


def test_an_upload_whose_notification_was_lost_is_found(cloud: Cloud) -> None:
    answer = opened(cloud)
    cloud.objects.objects[answer["upload"]["key"]] = b"x"
    cloud.clock.sleep(3_600)
    assert cloud.changes.sweep({}, None)["found_uploads"] == 1
    cloud.obey()
    assert cloud.get(answer["job"]["links"]["self"]).json["status"] == "done"


def test_a_worker_that_can_not_be_called_is_called_by_the_next_sweep(cloud: Cloud) -> None:
    from strata.errors import StoreUnavailable

    opened(cloud)
    cloud.change({"changes": [{"op": "delete", "path": "a"}]})
    cloud.clock.sleep(60)
    cloud.calls.error = StoreUnavailable()
    assert cloud.changes.sweep({}, None)["failures"] == 1
    cloud.calls.error = None
    assert cloud.changes.sweep({}, None)["sessions"] == 1


# --- cancel, failures, retry ----------------------------------------------------------------------------------------


def test_a_waiting_job_is_cancelled_at_once_and_the_next_one_is_worked(cloud: Cloud) -> None:
    awaiting = opened(cloud)["job"]
    first, second = (cloud.change({"changes": [{"op": "delete", "path": "a"}]}).json["job"] for _ in range(2))
    for job in (awaiting, first):
        reply = cloud.act(job, "cancel")
        assert (reply.status, reply.json["job"]["status"]) == (202, "cancelled")
    cloud.upload(f"changes/docs/{second['job_id']}.jsonl")
    assert [found for found, _ in cloud.runner.ran] == [second["job_id"]]
    assert cloud.get(second["links"]["self"]).json["status"] == "done"
    assert cloud.get(first["links"]["events"], query={"wait_s": "0"}).body.count("event: terminal") == 1


def test_a_running_job_is_cancelled_before_its_commit(cloud: Cloud) -> None:
    from strata.jobs.running import Progress

    answer = opened(cloud)

    def cancelled(found: Any, _lease: Any, progress: Any) -> JobReport:
        reply = cloud.act(found.job_id, "cancel")
        assert (reply.status, reply.json["job"]["status"]) == (202, "running")
        progress(Progress(phase="committing"))
        return pytest.fail("it went on to its commit")

    cloud.runner.work = cancelled
    cloud.upload(answer["upload"]["key"])
    assert cloud.get(answer["job"]["links"]["self"]).json["status"] == "cancelled"


def test_a_job_that_is_being_committed_can_not_be_cancelled(cloud: Cloud) -> None:
    from strata.jobs.running import Progress

    answer = opened(cloud)

    def late(found: Any, _lease: Any, progress: Any) -> JobReport:
        progress(Progress(phase="committing"))
        reply = cloud.act(found.job_id, "cancel")
        assert (reply.status, reply.error_code) == (409, "job_not_changeable")
        return REPORT

    cloud.runner.work = late
    cloud.upload(answer["upload"]["key"])
    assert cloud.get(answer["job"]["links"]["self"]).json["status"] == "done"
    assert cloud.act(answer["job"], "cancel").status == 409


def failed_job(cloud: Cloud) -> dict[str, Any]:
    from strata.errors import CorruptArchive

    def broken(*_: object) -> JobReport:
        raise CorruptArchive("The archive ends too early.")

    cloud.runner.work = broken
    answer = opened(cloud)
    cloud.objects.objects[answer["upload"]["key"]] = b"x"
    cloud.upload(answer["upload"]["key"])
    cloud.runner.work = lambda *_: REPORT
    job: dict[str, Any] = answer["job"]
    return job


def test_a_failed_job_is_listed_and_put_back_once(cloud: Cloud) -> None:
    job = failed_job(cloud)
    (listed,) = cloud.failures()["jobs"]
    assert (listed["job_id"], listed["error"]["code"]) == (job["job_id"], "corrupt_archive")
    again = cloud.act(job, "retry").json["job"]
    assert (again["status"], again["seq"]) == ("queued", 2)
    assert again["job_id"] != job["job_id"]
    cloud.obey()
    assert cloud.get(again["links"]["self"]).json["status"] == "done"
    assert cloud.failures() == {"jobs": [], "dead_letters": []}
    for done in (job, again):
        assert (cloud.act(done, "retry").status, cloud.act(done, "retry").error_code) == (409, "job_not_changeable")


def test_a_failed_job_whose_upload_is_gone_can_not_be_put_back(cloud: Cloud) -> None:
    job = failed_job(cloud)
    cloud.objects.objects.clear()
    assert (cloud.act(job, "retry").status, cloud.act(job, "retry").error_code) == (409, "upload_gone")


def test_a_dead_letter_is_put_back_once_there_is_a_session(cloud: Cloud) -> None:
    key = "uploads/docs/this im + age blah.zip"
    cloud.objects.objects[key] = b"x"
    for _ in range(3):
        cloud.upload(key)
    (letter,) = cloud.failures()["dead_letters"]
    assert (letter["object_key"], letter["session_id"]) == (key, None)
    assert cloud.failures(claims=BOB)["dead_letters"] == []  # of no session: for internal callers only
    assert cloud.act(letter["id"], "retry").status == 404
    opened(cloud)
    job = cloud.act(letter["id"], "retry").json["job"]
    cloud.obey()
    assert cloud.get(job["links"]["self"]).json["status"] == "done"
    assert cloud.failures()["dead_letters"] == []


@pytest.mark.parametrize("action", ["cancel", "retry"])
@pytest.mark.parametrize(("claims", "status"), [(BOB, 404), (EVE, 404), (OTHER_ANN, 404), (None, 401)])
def test_only_the_owner_acts_on_a_job(cloud: Cloud, action: str, claims: Any, status: int) -> None:
    job = failed_job(cloud)
    assert cloud.act(job, action, claims=claims).status == status
    if claims in (EVE, OTHER_ANN):
        assert cloud.failures(claims=claims) == {"jobs": [], "dead_letters": []}


# --- sessions -------------------------------------------------------------------------------------------------------


def test_readers_change_at_once(cloud: Cloud) -> None:
    opened(cloud)
    path = "/api/rag/sessions/docs"
    assert cloud.get(path, claims=EVE).status == 404
    reply = call(cloud.snapshot.http, rest_event("PATCH", path, body={"readers": ["user:eve", "user:eve"]}))
    assert (reply.status, reply.json["readers"]) == (200, ["user:eve"])
    assert (cloud.get(path, claims=EVE).status, cloud.get(path, claims=BOB).status) == (200, 404)
    for claims, status in ((EVE, 404), (BOB, 404), (None, 401)):
        assert (
            call(cloud.snapshot.http, rest_event("PATCH", path, body={"readers": []}, claims=claims)).status == status
        )
    assert call(cloud.snapshot.http, rest_event("PATCH", path, body={"readers": ["eve"]})).status == 422


def test_a_deleted_session_is_gone_at_once_and_its_name_is_free_after_the_purge(cloud: Cloud) -> None:
    answer = opened(cloud)
    cloud.objects.objects[answer["upload"]["key"]] = b"x"
    cloud.upload(answer["upload"]["key"])
    waiting = cloud.change({"changes": [{"op": "delete", "path": "a"}]}).json["job"]
    for claims, status in ((BOB, 404), (EVE, 404), (None, 401)):
        assert cloud.delete(claims=claims).status == status
    reply = cloud.delete()
    assert (reply.status, reply.body) == (204, "")
    for path in ("/api/rag/sessions/docs", answer["job"]["links"]["self"], waiting["links"]["events"]):
        assert cloud.get(path).status == 404
    assert cloud.delete().status == 404
    refused = cloud.open({"session_id": "docs"})
    assert (refused.status, refused.error_code) == (409, "session_name_taken")
    cloud.clock.sleep(1)
    cloud.obey()
    assert (cloud.objects.objects, cloud.table.jobs, cloud.table.sessions) == ({}, {}, {})
    assert cloud.open({"session_id": "docs"}).status == 201
    cloud.upload(cloud.open({"session_id": "docs"}).json["upload"]["key"])
    assert len(cloud.runner.ran) == 2  # the waiting job of the old session was never worked


def test_a_running_job_ends_with_its_session(cloud: Cloud) -> None:
    from strata.jobs.running import Progress

    answer = opened(cloud)

    def deleted(_found: Any, _lease: Any, progress: Any) -> JobReport:
        cloud.clock.sleep(1)
        assert cloud.delete().status == 204
        cloud.obey()
        progress(Progress(phase="committing"))
        return pytest.fail("it went on to its commit")

    cloud.runner.work = deleted
    cloud.upload(answer["upload"]["key"])
    assert (cloud.table.jobs, cloud.table.sessions) == ({}, {})
    assert cloud.get("/api/rag/sessions/docs").status == 404


# --- other services -------------------------------------------------------------------------------------------------


@pytest.fixture
def prompt_cloud(cloud: Cloud) -> Cloud:
    """Every object is worked on before its `put` returns."""
    put = cloud.objects.put

    def put_and_notify(key: str, body: bytes, *, content_type: str) -> Any:
        stored = put(key, body, content_type=content_type)
        cloud.upload(key, version=stored.version or "")
        return stored

    cloud.objects.put = put_and_notify  # type: ignore[method-assign]
    return cloud


def test_a_service_sends_files_and_gets_the_final_counters(prompt_cloud: Cloud) -> None:
    cloud = prompt_cloud
    body = {"session_id": "docs", "files": [{"path": "a.md", "content": "# A"}]}
    reply = call(cloud.snapshot.http, rest_event("POST", "/internal/rag/index/snapshot", body=body))
    assert (reply.status, reply.json["job"]["status"], reply.json["job"]["counters"]) == (200, "done", COUNTERS)
    changes = {"session_id": "docs", "changes": [{"op": "delete", "path": "a.md"}]}
    reply = call(cloud.changes.http, rest_event("POST", "/internal/rag/index/changes", body=changes))
    assert (reply.status, reply.json["job"]["status"], reply.json["job"]["kind"]) == (200, "done", "changes")


def test_a_service_may_ask_for_a_new_index(prompt_cloud: Cloud) -> None:
    body = {"session_id": "docs", "files": [{"path": "a.md", "content": "# A"}]}
    for asked in ({}, {"reindex": True}):
        call(prompt_cloud.snapshot.http, rest_event("POST", "/internal/rag/index/snapshot", body=body | asked))
    assert [prompt_cloud.table.jobs[job_id].reindex for job_id, _ in prompt_cloud.runner.ran] == [False, True]


def test_no_route_names_a_file_of_a_report_to_whom_its_acl_does_not_name(prompt_cloud: Cloud) -> None:
    def files(kind: str) -> tuple[ReportedFile, ...]:
        acls = {"open": None, "bobs": ("user:bob",), "anns": ("user:ann",), "hidden": ()}
        return tuple(ReportedFile(path=f"{kind}-{name}.md", reason="r", acl=acl) for name, acl in acls.items())

    cloud = prompt_cloud
    report = JobReport(skipped=files("skipped"), failed=files("failed"), notes=files("notes"))
    cloud.runner.work = lambda _job, _lease, _progress: report
    body: dict[str, Any] = {"session_id": "docs", "files": [{"path": "a.md", "content": "x"}]}
    replies = [cloud.open(body | {"readers": ["user:bob"]})]
    links = replies[0].json["job"]["links"]
    routes = (links["self"], links["events"], "/api/rag/sessions/docs/jobs")
    replies += [cloud.get(route) for route in routes]
    changes = {"session_id": "docs", "changes": [{"op": "delete", "path": "a.md"}]}
    replies += [
        call(cloud.snapshot.http, rest_event("POST", "/internal/rag/index/snapshot", body=body)),
        call(cloud.changes.http, rest_event("POST", "/internal/rag/index/changes", body=changes)),
        cloud.change({"changes": changes["changes"]}),
    ]
    for who, seen in (("anns", replies), ("bobs", [cloud.get(route, claims=BOB) for route in routes])):
        shown = [set(re.findall(r"(?:skipped|failed|notes)-(\w+)\.md", reply.body)) for reply in seen]
        assert shown == [{"open", who}] * len(seen)


def test_a_services_job_that_takes_longer_is_answered_as_it_is(cloud: Cloud) -> None:
    body = {"session_id": "docs", "files": [{"path": "a.md", "content": "# A"}]}
    reply = call(cloud.snapshot.http, rest_event("POST", "/internal/rag/index/snapshot", body=body))
    assert (reply.status, reply.json["job"]["status"]) == (202, "queued")


@pytest.mark.parametrize(("claims", "status"), [(BOB, 403), (None, 401)])
def test_internal_routes_are_for_services(cloud: Cloud, claims: Any, status: int) -> None:
    body = {"session_id": "docs", "files": [{"path": "a.md", "content": "# A"}]}
    assert (
        call(cloud.snapshot.http, rest_event("POST", "/internal/rag/index/snapshot", body=body, claims=claims)).status
        == status
    )
    changes = {"session_id": "docs", "changes": [{"op": "delete", "path": "a.md"}]}
    assert (
        call(cloud.changes.http, rest_event("POST", "/internal/rag/index/changes", body=changes, claims=claims)).status
        == status
    )
    assert cloud.table.jobs == {}
