"""Jobs, their order and their events (DynamoDB)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from strata.model.jobs import DeadLetter, Job, JobEvent, Lease


class JobStore(Protocol):
    """Jobs and their events (DynamoDB). Every transition is a conditional write."""

    def create(self, job: Job) -> None: ...

    def get(self, job_id: str) -> Job | None: ...

    def for_session(self, session_id: str, *, limit: int = 50) -> list[Job]:
        """Newest first."""
        ...

    def accept(self, job_id: str, *, session_id: str, object_version: str | None, applied_seq: int) -> Job:
        """`awaiting_upload` → `queued` with the session's next seq, in one TransactWrite; one that was accepted
        before is returned as it is. A session item that is missing or behind is seeded from `applied_seq`.

        Raises `JobNotFound`, `SessionNotFound` for a session that is being deleted, and, for a job that ended before
        its content came, `JobNotChangeable`.
        """
        ...

    def next_queued(self, session_id: str) -> Job | None:
        """The accepted job with the smallest seq above `done_seq`, whatever its state; None when all are done."""
        ...

    def start(self, job_id: str, lease: Lease) -> Job: ...

    def begin_commit(self, job_id: str, lease: Lease) -> None:
        """The point of no return: from here on a cancel is refused. Safe to repeat.

        Raises `JobCancelled` when the cancel came first, and `LockLost` when another worker has begun the job.
        """
        ...

    def hand_over(self, job_id: str, lease: Lease) -> None:
        """The worker stops because of its own time: its start does not count. Nothing happens to another's job."""
        ...

    def cancel(self, job_id: str) -> Job:
        """End a job that waits (`cancelled`), or ask the worker of a running one to end it.

        Raises `JobNotFound` and, for a job that has ended or is being committed, `JobNotChangeable`.
        """
        ...

    def put_back(self, failed: Job, again: Job) -> None:
        """Create `again` from a failed job, once. Raises `JobNotChangeable` for one that has not failed or was put back
        before.
        """
        ...

    def failed(self, tenant: str, *, limit: int = 50) -> list[Job]:
        """The tenant's jobs that ended as `error` and were not put back; newest first."""
        ...

    def waiting_sessions(self, now: datetime, *, limit: int) -> list[str]:
        """Sessions that somebody should be working on and nobody is: jobs wait, or a deletion does, and no lease runs.

        One query, whatever the number of sessions; it may be seconds behind.
        """
        ...

    def late_uploads(self, now: datetime, *, limit: int) -> list[Job]:
        """Jobs that still await an upload after their time; one query, it may be seconds behind."""
        ...

    def remove_session(self, session_id: str, *, before: datetime) -> None:
        """Remove the session's jobs that are older than that, with their events and places. Safe to repeat."""
        ...

    def finish(self, job: Job, lease: Lease) -> None:
        """The job's end (`done`, `error`, `cancelled`) and `done_seq`, together, guarded by the fence.

        A failed job whose cancel was asked for ends as `cancelled`: see `Job.ending`.
        Raises `LockLost` when the fence is no longer the present one.
        """
        ...

    def reject(self, job: Job) -> None:
        """End a job that was never accepted (`error`, `expired`); it holds no place in the order."""
        ...

    def append_event(self, job_id: str, name: str, data: Mapping[str, object]) -> JobEvent: ...

    def events_after(self, job_id: str, seq: int) -> list[JobEvent]: ...

    def dead_letter(self, letter: DeadLetter) -> None:
        """Record an upload that could not become a job; the same letter twice is one."""
        ...

    def get_dead_letter(self, letter_id: str) -> DeadLetter | None: ...

    def dead_letters(self, tenant: str | None, *, limit: int = 50) -> list[DeadLetter]:
        """The letters of the tenant's sessions, or (None) those of no session; newest first."""
        ...

    def remove_dead_letter(self, letter_id: str) -> None: ...
