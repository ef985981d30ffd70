"""A `JobStore` and a `SessionLock` on one table and one clock, and the steps that many tests take with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from strata.model.jobs import Job, JobReport, JobStatus, Lease
from strata.ports.jobs import JobStore
from strata.ports.locking import SessionLock
from tests.support.factories import job, job_id
from tests.support.fake_clock import FakeClock

LEASE = timedelta(seconds=60)
SESSION = "docs"


@dataclass
class Kit:
    jobs: JobStore
    lock: SessionLock
    clock: FakeClock

    def accepted(self, number: int, *, applied_seq: int = 0) -> Job:
        created_at = self.clock.now() + timedelta(seconds=number)
        self.jobs.create(job(job_id(number), session_id=SESSION, created_at=created_at))
        return self.jobs.accept(job_id(number), session_id=SESSION, object_version="v1", applied_seq=applied_seq)

    def acquire(self, owner: str, *, applied_seq: int = 0, fence: int = 0) -> Lease | None:
        return self.lock.acquire(SESSION, owner=owner, lease=LEASE, applied_seq=applied_seq, fence=fence)

    def held(self, owner: str = "a", *, applied_seq: int = 0) -> Lease:
        lease = self.acquire(owner, applied_seq=applied_seq)
        assert lease is not None
        return lease

    def done(self, found: Job, lease: Lease, *, report: JobReport | None = None) -> Job:
        ended = replace(found, status=JobStatus.DONE, report=report or JobReport())
        self.jobs.finish(ended, lease)
        return ended
