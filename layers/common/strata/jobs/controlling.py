"""What an owner does about jobs: cancel one, look at those that failed, put one back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from strata.errors import JobNotChangeable, JobNotFound, SessionNotFound, UploadGone
from strata.jobs.keeping import own_session
from strata.jobs.lifecycle import Lifecycle
from strata.jobs.naming import UploadedObject, is_job_id, is_letter_id, new_job_id, parse_object_key
from strata.model.access import INTERNAL_SCOPE, Identity, Session
from strata.model.jobs import DeadLetter, Job, JobStatus
from strata.ports.clock import Clock
from strata.ports.jobs import JobStore
from strata.ports.objects import ObjectStore
from strata.ports.sessions import SessionStore
from strata.ports.workers import WorkerCalls, WorkOrder

_ACCEPTED_WITHIN = timedelta(minutes=2)
_NOT_YOURS = "There is no such job, or you may not change it."
"""The same words for what is not there and for what is somebody else's: they tell nobody that it exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Both newest first."""

    jobs: tuple[Job, ...]
    dead_letters: tuple[DeadLetter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobControl:
    """What a session's owner does about its jobs: end one, see what failed and why, put it back.

    A job of somebody else's session looks exactly like one that does not exist.
    """

    sessions: SessionStore
    jobs: JobStore
    objects: ObjectStore
    lifecycle: Lifecycle
    calls: WorkerCalls
    clock: Clock

    def cancel(self, identity: Identity, job_id: str) -> Job:
        """A job that waits is `cancelled` at once; the worker of a running one ends it before its commit.

        Raises `JobNotFound`, also for a job of somebody else's session, and `JobNotChangeable` for a job that has
        ended or is being committed.
        """
        return self.jobs.cancel(self._own_job(identity, job_id).job_id)

    def failures(self, identity: Identity) -> Failures:
        """Failed jobs and dead letters of the caller's sessions; letters of no session for internal callers only."""
        may_read: dict[str, bool] = {}

        def mine(session_id: str | None) -> bool:
            if session_id is not None and session_id not in may_read:
                session = self.sessions.get(session_id)
                may_read[session_id] = session is not None and session.readable_by(identity)
            return session_id is not None and may_read[session_id]

        letters = [letter for letter in self.jobs.dead_letters(identity.tenant) if mine(letter.session_id)]
        if INTERNAL_SCOPE in identity.scopes:
            letters += self.jobs.dead_letters(None)
        return Failures(
            jobs=tuple(job for job in self.jobs.failed(identity.tenant) if mine(job.session_id)),
            dead_letters=tuple(sorted(letters, key=lambda letter: letter.created_at, reverse=True)),
        )

    def retry(self, identity: Identity, failed_id: str) -> Job:
        """A new job from the upload of a failed one, or of a dead letter, at the end of the session's order.

        Raises `JobNotFound`, `JobNotChangeable` (it has not failed, or was put back before) and `UploadGone`.
        """
        if is_letter_id(failed_id):
            return self._retry_letter(identity, failed_id)
        failed = self._own_job(identity, failed_id)
        if failed.status is not JobStatus.ERROR or failed.retried_as is not None:
            raise JobNotChangeable("Only a job that failed can be put back, and only once.")
        self._require_object(failed.object_key, failed.object_version)
        now = self.clock.now()
        again = Job(
            job_id=new_job_id(now),
            session_id=failed.session_id,
            tenant=failed.tenant,
            kind=failed.kind,
            reindex=failed.reindex,
            status=JobStatus.AWAITING_UPLOAD,
            object_key=failed.object_key,
            object_version=failed.object_version,
            created_at=now,
            updated_at=now,
            upload_until=now + _ACCEPTED_WITHIN,  # when we die before the next line, the sweep goes on from here
        )
        self.jobs.put_back(failed, again)
        return self._called(self.lifecycle.accept_job(again))

    def _retry_letter(self, identity: Identity, letter_id: str) -> Job:
        letter = self.jobs.get_dead_letter(letter_id)
        named = None if letter is None else parse_object_key(letter.object_key)
        if letter is None or named is None:
            raise JobNotFound(_NOT_YOURS)
        self._own(identity, named.session_id)
        self._require_object(letter.object_key, letter.object_version)
        job = self.lifecycle.accept_again(
            UploadedObject(key=letter.object_key, size_bytes=0, version=letter.object_version)
        )
        self.jobs.remove_dead_letter(letter_id)
        return self._called(job)

    def _called(self, job: Job) -> Job:
        self.calls.send(WorkOrder(session_id=job.session_id))
        return job

    def _require_object(self, key: str, version: str | None) -> None:
        if self.objects.head(key, version=version) is None:
            raise UploadGone

    def _own_job(self, identity: Identity, job_id: str) -> Job:
        job = self.jobs.get(job_id) if is_job_id(job_id) else None
        if job is None:
            raise JobNotFound(_NOT_YOURS)
        self._own(identity, job.session_id)
        return job

    def _own(self, identity: Identity, session_id: str) -> Session:
        try:
            return own_session(self.sessions, identity, session_id)
        except SessionNotFound as error:
            raise JobNotFound(_NOT_YOURS) from error
