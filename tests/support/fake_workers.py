"""Workers that only remember what they were asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from strata.jobs.running import ReportProgress
from strata.model.jobs import Job, JobReport, Lease
from strata.ports.workers import WorkOrder


@dataclass
class FakeWorkerCalls:
    """Remembers what it was asked for; with an `error` it can't be reached."""

    orders: list[WorkOrder] = field(default_factory=list)
    error: Exception | None = None

    def send(self, order: WorkOrder) -> None:
        if self.error is not None:
            raise self.error
        self.orders.append(order)


@dataclass
class FakeRunner:
    """A `JobRunner` that remembers what it did; `work` is what a test wants to happen in the middle of a job."""

    work: Callable[[Job, Lease, ReportProgress], JobReport] = lambda _job, _lease, _progress: JobReport()
    ran: list[tuple[str, int]] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)

    def index_snapshot(self, job: Job, lease: Lease, upload_format: str, progress: ReportProgress) -> JobReport:
        self.formats.append(upload_format)
        return self._run(job, lease, progress)

    def index_changes(self, job: Job, lease: Lease, progress: ReportProgress) -> JobReport:
        return self._run(job, lease, progress)

    def roll_back(self, job: Job, lease: Lease, progress: ReportProgress) -> JobReport:
        self.formats.append("rollback")
        return self._run(job, lease, progress)

    def _run(self, job: Job, lease: Lease, progress: ReportProgress) -> JobReport:
        self.ran.append((job.job_id, lease.fence))
        return self.work(job, lease, progress)
