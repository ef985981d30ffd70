"""Sessions and jobs as their readers may see them."""

from __future__ import annotations

from dataclasses import dataclass

from strata.errors import JobNotFound, SessionNotFound
from strata.jobs.naming import is_job_id, is_session_id
from strata.model.access import Identity, Session
from strata.model.jobs import Job
from strata.ports import JobStore, SessionStore


def readable_session(sessions: SessionStore, identity: Identity, session_id: str) -> Session:
    """The session; raises `SessionNotFound`, the same for one that is not there and one that is not the caller's."""
    session = sessions.get(session_id) if is_session_id(session_id) else None
    if session is None or not session.readable_by(identity):
        raise SessionNotFound
    return session


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReader:
    """Answers what a caller asks about sessions and jobs."""

    sessions: SessionStore
    jobs: JobStore

    def session(self, identity: Identity, session_id: str) -> Session:
        return readable_session(self.sessions, identity, session_id)

    def list_sessions(self, identity: Identity) -> list[Session]:
        return self.sessions.list_readable(identity)

    def job(self, identity: Identity, job_id: str) -> Job:
        """Raises `JobNotFound`, also for a job of a session that the caller may not read."""
        job = self.jobs.get(job_id) if is_job_id(job_id) else None
        if job is None:
            raise JobNotFound
        try:
            self.session(identity, job.session_id)
        except SessionNotFound as error:
            raise JobNotFound from error
        return job

    def list_jobs(self, identity: Identity, session_id: str) -> list[Job]:
        """Newest first."""
        return self.jobs.for_session(self.session(identity, session_id).session_id)
