"""What a clock sets going: work that nobody is doing, and uploads that never came."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from strata.errors import JobNotChangeable, JobNotFound, StrataError
from strata.model.jobs import Job, JobStatus
from strata.ports.clock import Clock
from strata.ports.jobs import JobStore
from strata.ports.objects import ObjectStore
from strata.ports.workers import WorkerCalls, WorkOrder

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How many sessions and lost uploads a worker was called for, and how many jobs expired."""

    sessions: int = 0
    found_uploads: int = 0
    expired: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The net under every notification: a worker that died, a hand-over, a notification that was lost.

    Two queries when there is nothing to do. Postgres is not asked, so a paused database stays paused. What can't be
    done now is done by the next sweep.
    """

    jobs: JobStore
    objects: ObjectStore
    calls: WorkerCalls
    clock: Clock
    limit: int = 200

    def run(self) -> Swept:
        now = self.clock.now()
        waiting = self.jobs.waiting_sessions(now, limit=self.limit)
        late = self.jobs.late_uploads(now, limit=self.limit)
        called, first_failures = _each(waiting, lambda name: self.calls.send(WorkOrder(session_id=name)))
        outcomes, failures = _each(late, self._late)
        return Swept(
            sessions=len(called),
            found_uploads=outcomes.count(JobStatus.QUEUED),
            expired=outcomes.count(JobStatus.EXPIRED),
            failures=first_failures + failures,
        )

    def _late(self, job: Job) -> JobStatus:
        if self.objects.head(job.object_key, version=job.object_version) is not None:
            self.calls.send(WorkOrder(session_id=job.session_id, job_id=job.job_id))
            return JobStatus.QUEUED
        try:
            self.jobs.reject(expired(job, self.clock))
        except (JobNotChangeable, JobNotFound):  # its content, or its end, came just now
            return JobStatus.AWAITING_UPLOAD
        return JobStatus.EXPIRED


def expired(job: Job, clock: Clock) -> Job:
    return replace(
        job,
        status=JobStatus.EXPIRED,
        error_code="upload_expired",
        error_message="Its content did not come in time; send the request again.",
        updated_at=clock.now(),
    )


def _each(items: Iterable[T], work: Callable[[T], object]) -> tuple[list[object], int]:
    """The results, and how many items failed: one that can't be helped now does not keep the others waiting."""
    results, failures = [], 0
    for item in items:
        try:
            results.append(work(item))
        except StrataError as error:
            _log.warning("The sweep could not help: %s", error.code)
            failures += 1
    return results, failures
