"""A session's accepted jobs, worked through in their order by one worker at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from strata.errors import (
    HandedOver,
    JobCancelled,
    JobNotChangeable,
    JobNotFound,
    LockLost,
    SessionNotFound,
    StaleFence,
    StoreUnavailable,
    StrataError,
    UploadRejected,
)
from strata.jobs.dispatch import Dispatcher
from strata.jobs.events import INDEX_STATUS, status_data
from strata.jobs.fault_points import reach
from strata.jobs.keeping import SessionKeeper
from strata.jobs.naming import parse_object_key
from strata.jobs.retrying import RetryPolicy, is_temporary, retried
from strata.jobs.running import JobRunner, Phase, Progress, ReportProgress
from strata.model.jobs import Failure, Job, JobKind, JobReport, JobStatus, Lease
from strata.ports.clock import Clock
from strata.ports.jobs import JobStore
from strata.ports.locking import SessionLock
from strata.ports.sessions import SessionStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """Drains a session.

    Whoever finds the session's lock taken leaves: the holder lets go only when no accepted job waits, so nothing is
    forgotten. `runner` is called when there is the first job to do (it may load a model). A worker with less than
    `reserve_s` left hands over; a job that has been begun `max_starts` times without an end is given up. A start that
    ended in a hand-over after some work does not count: a snapshot may take many workers' time. Large jobs go to an
    execution of their own, by `dispatcher`: it takes the lock after us, and drains what waits behind it.
    """

    sessions: SessionStore
    jobs: JobStore
    lock: SessionLock
    keeper: SessionKeeper
    runner: Callable[[], JobRunner]
    clock: Clock
    lease: timedelta
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    reserve_s: float = 20.0
    max_starts: int = 5
    event_every: timedelta = timedelta(milliseconds=250)
    look_every: timedelta = timedelta(seconds=1)
    """How often a running job is looked at, whether its owner still wants it."""
    dispatcher: Dispatcher | None = None

    def drain(self, session_id: str, *, owner: str, remaining_s: Callable[[], float]) -> None:
        """Work until nothing waits. `owner` must be unique to this invocation; `remaining_s` is its time left.

        Raises `HandedOver` (the lock is free, the next delivery goes on) and what the stores raise. A lock that was
        lost to another worker is no error: that one goes on.
        """
        session = self.sessions.get(session_id)
        if session is None and self.lock.deletion(session_id) is None:
            self.lock.forget(session_id)
            return
        applied_seq, fence = (0, 0) if session is None else (session.applied_seq, session.fence)
        held = self.lock.acquire(session_id, owner=owner, lease=self.lease, applied_seq=applied_seq, fence=fence)
        if held is None:
            return
        reach("after_lock")
        heartbeat = _Heartbeat(mailbox=self, held=held, remaining_s=remaining_s, renewed_at=self.clock.now())
        try:
            if held.deletion is not None:
                self.keeper.purge(held, heartbeat.keep)
                return
            # Before anything is decided: a holder that was paused can't commit any more behind our back.
            self.sessions.claim(session_id, held.fence)
            reach("after_claim")
            self._work_through(heartbeat)
        except (LockLost, StaleFence, SessionNotFound, JobNotFound) as error:
            # Another worker goes on; or the session was deleted, and the next holder of the lock purges it.
            _log.info("Session %s is not ours any more (%s).", session_id, error.code)
            self.lock.abandon(held)
        except BaseException:
            self._abandon_after_failure(held)
            raise

    def _work_through(self, heartbeat: _Heartbeat) -> None:
        while True:
            job = self.jobs.next_queued(heartbeat.held.session_id)
            if job is None:
                reach("before_release")
                if self.lock.release(heartbeat.held):
                    reach("after_release")
                    return
                continue  # a job was accepted between the two calls
            heartbeat.keep()
            if self.dispatcher is not None and not job.status.ended and self.dispatcher.takes(job):
                if self.dispatcher.dispatch(job):
                    self.lock.abandon(heartbeat.held)
                    return
                # Its execution has come to an end without bringing the job to one.
                job = self._failed(
                    job, Failure("execution_failed", "The execution for this job ended before the job did.")
                )
            self._work_on(job, heartbeat)

    def _work_on(self, job: Job, heartbeat: _Heartbeat) -> None:
        try:
            ended = job if job.status.ended else self._ended(self.jobs.start(job.job_id, heartbeat.held), heartbeat)
        except JobNotChangeable:  # it was ended from outside in the meantime: only its place in the order is closed
            ended = self.jobs.get(job.job_id) or job
            if not ended.status.ended:
                raise
        reach("before_finish")
        retried(lambda: self.jobs.finish(ended, heartbeat.held), self.retry)
        reach("after_finish")

    def _ended(self, job: Job, heartbeat: _Heartbeat) -> Job:
        """The job as it is after its work, done or failed; what is not about the job itself comes through."""
        reach("after_start")
        if job.starts > self.max_starts and not self._applied(job):
            lost = f"The job was begun {job.starts - 1} times and never came to an end."
            return self._failed(job, Failure("worker_lost", lost))
        heartbeat.begin(job)
        try:
            report = retried(
                lambda: self._run(job, heartbeat), self.retry, before_retry=lambda error: heartbeat.retry(job, error)
            )
        except HandedOver:
            if heartbeat.advanced:
                self.jobs.hand_over(job.job_id, heartbeat.held)
            raise
        except (LockLost, StaleFence, JobNotChangeable):
            raise
        except JobCancelled as error:
            _log.info("Job %s ends: %s", job.job_id, error.message)
            return replace(job, status=JobStatus.CANCELLED, updated_at=self.clock.now())
        except StrataError as error:
            if isinstance(error, StoreUnavailable) and (heartbeat.committing or job.starts < self.max_starts):
                raise  # a store that restarts costs no job: the next delivery or sweep goes on, and finds a commit done
            _log.warning("Job %s failed: %s", job.job_id, error.code)
            return self._failed(job, Failure.of(error))
        except Exception as error:
            kind = type(error).__name__
            _log.exception("Job %s failed: %s", job.job_id, kind)
            if is_temporary(error):
                return self._failed(
                    job, Failure("temporary_error", f"{kind}, also after {self.retry.attempts} attempts.")
                )
            return self._failed(job, unexpected(kind))
        return replace(job, status=JobStatus.DONE, report=report, updated_at=self.clock.now())

    def _applied(self, job: Job) -> bool:
        """Whether its commit was done: then beginning it again only finds that out."""
        session = self.sessions.get(job.session_id)
        return session is not None and job.seq is not None and session.applied_seq >= job.seq

    def _run(self, job: Job, heartbeat: _Heartbeat) -> JobReport:
        heartbeat(Progress(phase="reading"))
        if job.kind is JobKind.ROLLBACK:
            return self.runner().roll_back(job, heartbeat.held, heartbeat)
        if job.kind is JobKind.CHANGES:
            return self.runner().index_changes(job, heartbeat.held, heartbeat)
        named = parse_object_key(job.object_key)
        if named is None:
            raise UploadRejected(f"{job.object_key!r} is not the key of an upload.")
        return self.runner().index_snapshot(job, heartbeat.held, named.upload_format, heartbeat)

    def heartbeat(self, held: Lease, remaining_s: Callable[[], float], job: Job) -> ReportProgress:
        """For who works on a job under a lease of its own: renews it, and appends the job's events."""
        heartbeat = _Heartbeat(mailbox=self, held=held, remaining_s=remaining_s, renewed_at=self.clock.now())
        heartbeat.begin(job)
        return heartbeat

    def _failed(self, job: Job, failure: Failure) -> Job:
        return failure.end(job, self.clock.now())

    def _abandon_after_failure(self, held: Lease) -> None:
        try:
            self.lock.abandon(held)
        except Exception:
            # The failure that brought us here is the one to raise; the lease ends by itself.
            _log.exception("The lock of session %s could not be released.", held.session_id)


def unexpected(kind: str) -> Failure:
    """Of an error that is none of ours: its text may hold anything, so it is not told."""
    return Failure("internal", f"The job failed unexpectedly ({kind}); nothing was written.")


@dataclass(slots=True, kw_only=True)
class _Heartbeat:
    """What a running job calls: it renews the lease every third of it and lets progress through, not too often."""

    mailbox: Mailbox
    held: Lease
    remaining_s: Callable[[], float]
    renewed_at: datetime
    job: Job | None = None
    told_at: datetime | None = None
    told_phase: Phase | None = None
    looked_at: datetime | None = None
    advanced: bool = False
    committing: bool = False

    def __call__(self, progress: Progress, /) -> None:
        self.advanced = self.advanced or progress.counters.cache_miss_files > 0 or progress.written_files > 0
        self.keep()
        now = self.mailbox.clock.now()
        if self.job is not None:
            self._look(self.job, now, progress.phase)
        due = self.told_at is None or now - self.told_at >= self.mailbox.event_every
        if self.job is not None and (due or progress.phase != self.told_phase):
            self.told_at, self.told_phase = now, progress.phase
            self.mailbox.jobs.append_event(self.job.job_id, INDEX_STATUS, status_data(JobStatus.RUNNING, progress))

    def _look(self, job: Job, now: datetime, phase: Phase) -> None:
        """Raises `JobCancelled`; with the phase `committing` the job passes the point where it still could be."""
        if phase == "committing":
            reach("before_commit_mark")
            self.mailbox.jobs.begin_commit(job.job_id, self.held)
            self.committing = True
            reach("after_commit_mark")
        elif self.looked_at is None or now - self.looked_at >= self.mailbox.look_every:
            # As it was read a moment ago when the work on it begins.
            present = job if self.looked_at is None else self.mailbox.jobs.get(job.job_id)
            self.looked_at = now
            if present is None:
                raise LockLost
            if present.cancel_requested and not present.committing:
                raise JobCancelled

    def keep(self) -> Lease:
        """Raises `HandedOver` near the end of this worker's time and `LockLost` when another one has the session."""
        if self.remaining_s() < self.mailbox.reserve_s:
            raise HandedOver
        now = self.mailbox.clock.now()
        if now - self.renewed_at >= self.mailbox.lease / 3:
            self.held = self.mailbox.lock.renew(self.held, lease=self.mailbox.lease)
            self.renewed_at = now
        return self.held

    def begin(self, job: Job) -> None:
        self.job, self.told_at, self.told_phase, self.looked_at = job, None, None, None
        self.advanced = self.committing = False

    def retry(self, job: Job, error: Exception) -> None:
        _log.warning("Job %s is tried again after %s.", job.job_id, type(error).__name__)
        self.keep()
