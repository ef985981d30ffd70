"""The three buffered functions, called as Lambda calls them, on fakes behind bootstrap."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from strata.model.corpus import ReportedFile
from strata.model.jobs import Counters, JobReport
from tests.support.fake_clock import FakeClock
from tests.support.fake_jobs import FakeJobTable
from tests.support.fake_objects import FakeObjectStore
from tests.support.fake_workers import FakeRunner, FakeWorkerCalls
from tests.support.lambda_events import LambdaContext, Reply, call, rest_event, s3_event

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


def opened(cloud: Cloud, **body: Any) -> dict[str, Any]:
    reply = cloud.open({"session_id": "docs", "readers": ["group:readers"], **body})
    assert reply.status in (200, 201)
    answer: dict[str, Any] = reply.json
    return answer


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
