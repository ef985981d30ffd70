"""A session with any number of workers on it, in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from strata.jobs.keeping import SessionKeeper
from strata.jobs.mailbox import Mailbox
from strata.jobs.retrying import RetryPolicy
from strata.model.jobs import Job, JobKind
from tests.support.factories import identity, job, job_id
from tests.support.fake_clock import FakeClock
from tests.support.fake_jobs import FakeJobStore, FakeJobTable
from tests.support.fake_lock import FakeSessionLock
from tests.support.fake_objects import FakeObjectStore
from tests.support.fake_workers import FakeRunner, FakeWorkerCalls
from tests.support.fakes import FakeSessionStore

SESSION = "docs"


class Killed(BaseException):
    """Stands for a process that ends in the middle: nothing that a worker catches."""


@dataclass
class Office:
    """A session, its stores and any number of workers on them."""

    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.table = FakeJobTable(clock=self.clock)
        self.jobs = FakeJobStore(self.table)
        self.lock = FakeSessionLock(self.table)
        self.sessions = FakeSessionStore()
        self.runner = FakeRunner()
        self.sessions.create(
            session_id=SESSION,
            identity=identity("ann"),
            project_id=SESSION,
            embedding_model="hashed-256",
            dimension=256,
            pipeline_version="1",
        )
        self.objects = FakeObjectStore()
        self.calls = FakeWorkerCalls()
        self.keeper = SessionKeeper(
            sessions=self.sessions,
            jobs=self.jobs,
            lock=self.lock,
            objects=self.objects,
            calls=self.calls,
            clock=self.clock,
            lease=timedelta(seconds=60),
        )
        self.owners = 0

    def mailbox(self, runner: FakeRunner | None = None, **changed: Any) -> Mailbox:
        values: dict[str, Any] = {
            "sessions": self.sessions,
            "jobs": self.jobs,
            "lock": self.lock,
            "keeper": self.keeper,
            "runner": lambda: runner or self.runner,
            "clock": self.clock,
            "lease": timedelta(seconds=60),
            "retry": RetryPolicy(sleep=self.clock.sleep, draw=lambda: 1.0),
        }
        return Mailbox(**(values | changed))

    def drain(self, mailbox: Mailbox | None = None, *, remaining_s: Callable[[], float] = lambda: 900.0) -> None:
        self.owners += 1
        (mailbox or self.mailbox()).drain(SESSION, owner=f"worker-{self.owners}", remaining_s=remaining_s)

    def accept(self, number: int, *, kind: JobKind = JobKind.CHANGES) -> Job:
        self.jobs.create(job(job_id(number), session_id=SESSION, kind=kind))
        applied_seq = self.sessions.sessions[SESSION].applied_seq
        return self.jobs.accept(job_id(number), session_id=SESSION, object_version=None, applied_seq=applied_seq)

    def job(self, number: int) -> Job:
        found = self.jobs.get(job_id(number))
        assert found is not None
        return found

    def statuses(self, *numbers: int) -> list[str]:
        return [self.job(number).status.value for number in numbers]

    def phases(self, number: int) -> list[object]:
        events = self.jobs.events_after(job_id(number), 0)
        return [event.data.get("phase", event.name) for event in events]

    @property
    def free(self) -> bool:
        return self.table.session(SESSION).owner is None


def worked(office: Office) -> list[str]:
    return [found for found, _ in office.runner.ran]
