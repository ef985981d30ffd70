"""What the mailbox asks of whoever does a job's work, and what that reports on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from strata.model.jobs import Counters, Failure, Job, JobReport, Lease

Phase = Literal["queued", "reading", "planning", "preparing", "filling", "committing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a job is; `total_files` is 0 as long as it is unknown.

    `written_files`: those of `done_files` that this worker has written into a new index; the next one finds them there.
    """

    phase: Phase
    done_files: int = 0
    total_files: int = 0
    written_files: int = 0
    counters: Counters = field(default_factory=Counters)


class ReportProgress(Protocol):
    def __call__(self, progress: Progress, /) -> None:
        """Call it at least every few seconds, also inside long steps: it keeps the lease alive.

        Raises `LockLost` when another worker has taken over and `HandedOver` when this worker's time is nearly
        over; let both pass.
        """
        ...


class JobRunner(Protocol):
    """Does the work of one job up to and including the commit under `lease.fence`. Safe to repeat."""

    def index_snapshot(self, job: Job, lease: Lease, upload_format: str, progress: ReportProgress) -> JobReport:
        """`upload_format` is `tar.gz`, `zip` or `jsonl`."""
        ...

    def index_changes(self, job: Job, lease: Lease, progress: ReportProgress) -> JobReport: ...

    def roll_back(self, job: Job, lease: Lease, progress: ReportProgress) -> JobReport: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBatches:
    """What a plan has left in the object store: a JSON array of the keys of `batches` packed objects."""

    manifest_key: str
    batches: int


class Stages(Protocol):
    """The work of one large snapshot in parts that run in processes of their own. Each is safe to repeat.

    They raise what `JobRunner.index_snapshot` raises, and what `progress` raises.
    """

    def plan(self, job: Job, progress: ReportProgress) -> PackedBatches:
        """Read the upload once; pack the files that are to be prepared."""
        ...

    def prepare(self, job: Job, batch_key: str, progress: ReportProgress) -> None:
        """Prepare one packed object."""
        ...

    def fill(self, job: Job, lease: Lease, progress: ReportProgress) -> int | None:
        """The number of the filled new index; None when the job has been applied already."""
        ...

    def flip(self, job: Job, lease: Lease, index_id: int | None, progress: ReportProgress) -> JobReport: ...

    def failure(self, job: Job) -> Failure | None:
        """What ended the planning or a preparation for good, if anything did."""
        ...
