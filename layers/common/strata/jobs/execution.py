"""The states of an execution that works on one large job: it holds the session's lock from the first to the last.

The lock's owner is the execution, whatever process a state runs in; every state renews it. A state may run twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from strata import errors
from strata.errors import JobNotChangeable, JobNotFound, SessionBusy, SessionNotFound, StrataError
from strata.jobs.mailbox import Mailbox, unexpected
from strata.jobs.retrying import RetryPolicy, retried
from strata.jobs.running import Progress, Stages
from strata.model.jobs import Failure, Job, JobStatus, Lease
from strata.ports.clock import Clock
from strata.ports.jobs import JobStore
from strata.ports.locking import SessionLock
from strata.ports.sessions import SessionStore

Remaining = Callable[[], float]
_NO_TIME = "States.Timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What the first state tells the others. `batches` is 0 where nothing is to be prepared.

    `ended`: the job was over before; there is nothing to do.
    """

    job_id: str
    session_id: str
    ended: bool
    manifest_key: str = ""
    batches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExecution:
    """One method a state."""

    sessions: SessionStore
    jobs: JobStore
    lock: SessionLock
    clock: Clock
    lease: timedelta
    mailbox: Mailbox
    stages: Callable[[], Stages]
    retry: RetryPolicy

    def plan(self, job_id: str, remaining_s: Remaining) -> Planned:
        """Take the lock, start the job, and plan it.

        Raises `SessionBusy` while another worker holds the session or an earlier job waits, and what planning raises.
        """
        job = self._job(job_id)
        if job.status.ended:
            return Planned(job_id=job_id, session_id=job.session_id, ended=True)
        held = self._hold(job)
        job = self.jobs.start(job_id, held)
        progress = self.mailbox.heartbeat(held, remaining_s, job)
        progress(Progress(phase="reading"))
        packed = self.stages().plan(job, progress)
        return Planned(
            job_id=job_id,
            session_id=job.session_id,
            ended=False,
            manifest_key=packed.manifest_key,
            batches=packed.batches,
        )

    def prepare(self, job_id: str, batch_key: str, remaining_s: Remaining) -> None:
        job, held = self._going_on(job_id)
        self.stages().prepare(job, batch_key, self.mailbox.heartbeat(held, remaining_s, job))

    def fill(self, job_id: str, remaining_s: Remaining) -> int | None:
        """The new index's number. Raises `HandedOver` near the end of the time: called again it goes on."""
        job, held = self._going_on(job_id)
        return self.stages().fill(job, held, self.mailbox.heartbeat(held, remaining_s, job))

    def flip(self, job_id: str, index_id: int | None, remaining_s: Remaining) -> None:
        """Make the new index the live one, and end the job."""
        if self._job(job_id).status is JobStatus.DONE:
            return  # the reply was lost
        job, held = self._going_on(job_id)
        report = self.stages().flip(job, held, index_id, self.mailbox.heartbeat(held, remaining_s, job))
        done = replace(job, status=JobStatus.DONE, report=report, updated_at=self.clock.now())
        retried(lambda: self.jobs.finish(done, held), self.retry)

    def release(self, session_id: str, job_id: str, *, owner: str, remaining_s: Remaining) -> None:
        """Let the lock go and work on what waits, as any worker does."""
        with suppress(SessionNotFound):  # the drain purges what a deletion has left
            if held := self._acquire(session_id, job_id):
                self.lock.abandon(held)
        self.mailbox.drain(session_id, owner=owner, remaining_s=remaining_s)

    def fail(self, job_id: str, error: str, cause: str) -> str:
        """End the job with the error that ended a state; the session's name. A job that has ended stays as it is.

        Raises `SessionBusy` while another worker holds the session.
        """
        job = self._job(job_id)
        if job.seq is None:
            return job.session_id
        held = self._acquire(job.session_id, job_id)
        if held is None:
            raise SessionBusy
        ended = job if job.status.ended else self._failed(job, error, cause)
        retried(lambda: self.jobs.finish(ended, held), self.retry)
        return job.session_id

    def _failed(self, job: Job, error: str, cause: str) -> Job:
        return self._told(job, error, cause).end(job, self.clock.now())

    def ended(self, job_id: str, status: str, *, owner: str, remaining_s: Remaining) -> None:
        """The execution has failed, timed out or was stopped: end its job if no state did, and go on with the rest."""
        job = self.jobs.get(job_id)
        if job is None:
            return
        if not job.status.ended:
            self.fail(job_id, "execution_failed", f"The execution for this job ended as {status}.")
        self.release(job.session_id, job_id, owner=owner, remaining_s=remaining_s)

    def _told(self, job: Job, error: str, cause: str) -> Failure:
        """What a state has left, or what its error tells: its class, and the JSON that Lambda makes of it."""
        if failure := self.stages().failure(job):
            return failure
        kind = getattr(errors, error, None)
        if isinstance(kind, type) and issubclass(kind, StrataError):
            return Failure(kind().code, _message(cause) or kind().message)
        if error == _NO_TIME:
            return Failure("worker_lost", "A step of the job did not end in its time.")
        if error == "execution_failed":
            return Failure(error, cause)
        return unexpected(error)

    def _job(self, job_id: str) -> Job:
        job = self.jobs.get(job_id)
        if job is None:
            raise JobNotFound
        return job

    def _going_on(self, job_id: str) -> tuple[Job, Lease]:
        """The job and the execution's lease. Raises `JobNotChangeable` for a job that was cancelled meanwhile."""
        job = self._job(job_id)
        if job.status.ended:
            raise JobNotChangeable
        return job, self._hold(job)

    def _hold(self, job: Job) -> Lease:
        """The lock, for this job's turn; taken anew where the lease had run out. Raises `SessionBusy`."""
        held = self._acquire(job.session_id, job.job_id)
        if held is None:
            raise SessionBusy
        self.sessions.claim(job.session_id, held.fence)
        first = self.jobs.next_queued(job.session_id)
        if first is None or first.job_id != job.job_id:
            self.lock.abandon(held)
            raise SessionBusy
        return self.lock.renew(held, lease=self.lease)

    def _acquire(self, session_id: str, job_id: str) -> Lease | None:
        """None while another worker holds the session. Raises `SessionNotFound` for one that is being deleted."""
        session = self.sessions.get(session_id)
        held = self.lock.acquire(
            session_id,
            owner=f"execution/{job_id}",
            lease=self.lease,
            applied_seq=session.applied_seq if session else 0,
            fence=session.fence if session else 0,
        )
        if held is not None and (session is None or held.deletion is not None):
            self.lock.abandon(held)
            raise SessionNotFound
        return held


def _message(cause: str) -> str:
    try:
        told = json.loads(cause)
    except ValueError:
        return ""
    return str(told.get("errorMessage", "")) if isinstance(told, Mapping) else ""
