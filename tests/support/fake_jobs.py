"""A `JobStore` that keeps its port's promises in memory, and the table that it shares with the lock."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from strata.errors import (
    Conflict,
    JobCancelled,
    JobNotChangeable,
    JobNotFound,
    LockLost,
    SessionNotFound,
)
from strata.jobs.events import INDEX_STATUS, TERMINAL, status_data
from strata.jobs.running import Progress
from strata.model.jobs import DeadLetter, Job, JobEvent, JobStatus, Lease
from tests.support.fake_clock import FakeClock

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class FakeSession:
    accepted_seq: int = 0
    done_seq: int = 0
    owner: str | None = None
    until: datetime = _LONG_AGO
    fence: int = 0
    deletion: int | None = None
    listed_at: datetime | None = None


@dataclass
class FakeJobTable:
    """What store and lock share, as one DynamoDB table; `sessions` and `places` are open to tests that lose them."""

    clock: FakeClock = field(default_factory=FakeClock)
    jobs: dict[str, Job] = field(default_factory=dict)
    events: dict[str, list[JobEvent]] = field(default_factory=dict)
    sessions: dict[str, FakeSession] = field(default_factory=dict)
    places: dict[tuple[str, int], str] = field(default_factory=dict)
    dead_letters: dict[str, DeadLetter] = field(default_factory=dict)
    turn: threading.RLock = field(default_factory=threading.RLock)

    def session(self, session_id: str, applied_seq: int = 0) -> FakeSession:
        found = self.sessions.get(session_id)
        if found is None:
            given_out = max((seq for name, seq in self.places if name == session_id), default=0)
            found = FakeSession(accepted_seq=max(given_out, applied_seq), done_seq=applied_seq)
        elif found.accepted_seq < applied_seq:
            found.accepted_seq, found.done_seq = applied_seq, max(found.done_seq, applied_seq)
        self.sessions[session_id] = found
        return found

    def holds(self, lease: Lease) -> bool:
        found = self.sessions.get(lease.session_id)
        return found is not None and (found.owner, found.fence) == (lease.owner, lease.fence)


class FakeJobStore:
    def __init__(self, table: FakeJobTable | None = None) -> None:
        self.table = table or FakeJobTable()

    def create(self, job: Job) -> None:
        with self.table.turn:
            if job.job_id in self.table.jobs:
                raise Conflict
            self.table.jobs[job.job_id] = job
            self.table.events[job.job_id] = []

    def get(self, job_id: str) -> Job | None:
        return self.table.jobs.get(job_id)

    def for_session(self, session_id: str, *, limit: int = 50) -> list[Job]:
        found = [job for job in self.table.jobs.values() if job.session_id == session_id]
        return sorted(found, key=lambda job: job.created_at, reverse=True)[:limit]

    def accept(self, job_id: str, *, session_id: str, object_version: str | None, applied_seq: int) -> Job:
        with self.table.turn:
            job = self._require(job_id)
            if job.session_id != session_id:
                raise JobNotFound
            if job.seq is not None:
                return job
            if job.status is not JobStatus.AWAITING_UPLOAD:
                raise JobNotChangeable
            session = self.table.session(session_id, applied_seq)
            if session.deletion is not None:
                raise SessionNotFound
            session.accepted_seq += 1
            session.listed_at = max(session.until, self.table.clock.now() + timedelta(seconds=30))
            self.table.places[session_id, session.accepted_seq] = job_id
            data = status_data(JobStatus.QUEUED, Progress(phase="queued"))
            self.table.events[job_id].append(JobEvent(seq=1, name=INDEX_STATUS, data=data))
            return self._save(
                replace(
                    job,
                    status=JobStatus.QUEUED,
                    seq=session.accepted_seq,
                    object_version=object_version,
                    updated_at=self.table.clock.now(),
                )
            )

    def next_queued(self, session_id: str) -> Job | None:
        with self.table.turn:
            session = self.table.session(session_id)
            while session.done_seq < session.accepted_seq:
                job_id = self.table.places.get((session_id, session.done_seq + 1), "")
                if job := self.table.jobs.get(job_id):
                    return job
                session.done_seq += 1
            return None

    def start(self, job_id: str, lease: Lease) -> Job:
        with self.table.turn:
            job = self._require(job_id)
            if job.status not in (JobStatus.QUEUED, JobStatus.RUNNING):
                raise JobNotChangeable
            self._check_held(lease)
            running = replace(job, status=JobStatus.RUNNING, fence=lease.fence, starts=job.starts + 1)
            return self._save(replace(running, updated_at=self.table.clock.now()))

    def finish(self, job: Job, lease: Lease) -> None:
        if job.seq is None or not job.status.ended:
            raise ValueError(job)
        with self.table.turn:
            self._check_held(lease)
            session = self.table.session(lease.session_id)
            if session.done_seq >= job.seq:
                return
            session.done_seq = job.seq
            if not self._require(job.job_id).status.ended:
                self._end(job)

    def reject(self, job: Job) -> None:
        if not job.status.ended:
            raise ValueError(job)
        with self.table.turn:
            stored = self._require(job.job_id)
            if stored.seq is not None:
                raise JobNotChangeable
            if not stored.status.ended:
                self._end(job)

    def append_event(self, job_id: str, name: str, data: Mapping[str, object]) -> JobEvent:
        with self.table.turn:
            if self._require(job_id).status.ended:
                raise JobNotChangeable
            return self._append(job_id, name, data)

    def events_after(self, job_id: str, seq: int) -> list[JobEvent]:
        return [event for event in self.table.events.get(job_id, []) if event.seq > seq]

    def begin_commit(self, job_id: str, lease: Lease) -> None:
        with self.table.turn:
            job = self.table.jobs.get(job_id)
            if job is None or job.status is not JobStatus.RUNNING or job.fence != lease.fence:
                raise LockLost
            if job.cancel_requested:
                raise JobCancelled
            self._save(replace(job, committing=True))

    def hand_over(self, job_id: str, lease: Lease) -> None:
        with self.table.turn:
            job = self._require(job_id)
            if job.status is JobStatus.RUNNING and job.fence == lease.fence:
                self._save(replace(job, starts=job.starts - 1))

    def cancel(self, job_id: str) -> Job:
        with self.table.turn:
            job = self._require(job_id)
            if job.status.ended or job.committing:
                raise JobNotChangeable
            if job.status is JobStatus.RUNNING:
                return self._save(replace(job, cancel_requested=True))
            self._end(replace(job, status=JobStatus.CANCELLED, updated_at=self.table.clock.now()))
            return self._require(job_id)

    def put_back(self, failed: Job, again: Job) -> None:
        with self.table.turn:
            stored = self._require(failed.job_id)
            if stored.status is not JobStatus.ERROR or stored.retried_as is not None:
                raise JobNotChangeable
            self.create(again)
            self._save(replace(stored, retried_as=again.job_id))

    def failed(self, tenant: str, *, limit: int = 50) -> list[Job]:
        found = [
            job
            for job in self.table.jobs.values()
            if job.tenant == tenant and job.status is JobStatus.ERROR and job.retried_as is None
        ]
        return sorted(found, key=lambda job: job.updated_at, reverse=True)[:limit]

    def waiting_sessions(self, now: datetime, *, limit: int) -> list[str]:
        found = [(at, name) for name, session in self.table.sessions.items() if (at := session.listed_at) is not None]
        return [name for at, name in sorted(found) if at <= now][:limit]

    def late_uploads(self, now: datetime, *, limit: int) -> list[Job]:
        found = [
            job
            for job in self.table.jobs.values()
            if job.status is JobStatus.AWAITING_UPLOAD and job.upload_until is not None and job.upload_until <= now
        ]
        return found[:limit]

    def remove_session(self, session_id: str, *, before: datetime) -> None:
        with self.table.turn:
            gone = [
                job.job_id
                for job in self.table.jobs.values()
                if job.session_id == session_id and job.created_at < before
            ]
            for job_id in gone:
                del self.table.jobs[job_id]
                self.table.events.pop(job_id, None)
            self.table.places = {place: name for place, name in self.table.places.items() if name not in gone}

    def dead_letter(self, letter: DeadLetter) -> None:
        self.table.dead_letters[letter.letter_id] = letter

    def get_dead_letter(self, letter_id: str) -> DeadLetter | None:
        return self.table.dead_letters.get(letter_id)

    def dead_letters(self, tenant: str | None, *, limit: int = 50) -> list[DeadLetter]:
        found = [letter for letter in self.table.dead_letters.values() if letter.tenant == tenant]
        return sorted(found, key=lambda letter: letter.created_at, reverse=True)[:limit]

    def remove_dead_letter(self, letter_id: str) -> None:
        self.table.dead_letters.pop(letter_id, None)

    def _require(self, job_id: str) -> Job:
        if job_id not in self.table.jobs:
            raise JobNotFound
        return self.table.jobs[job_id]

    def _save(self, job: Job) -> Job:
        self.table.jobs[job.job_id] = job
        return job

    def _append(self, job_id: str, name: str, data: Mapping[str, object]) -> JobEvent:
        event = JobEvent(seq=len(self.table.events[job_id]) + 1, name=name, data=data)
        self.table.events[job_id].append(event)
        return event

    def _end(self, job: Job) -> None:
        self._save(self._require(job.job_id).ending(job))
        self._append(job.job_id, TERMINAL, {})

    def _check_held(self, lease: Lease) -> None:
        if not self.table.holds(lease):
            raise LockLost
