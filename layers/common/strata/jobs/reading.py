"""Sessions and jobs as their readers may see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NewType

from strata.errors import JobNotFound, SessionNotFound
from strata.jobs.naming import is_job_id, is_session_id
from strata.model.access import Identity, Session
from strata.model.corpus import ReportedFile
from strata.model.jobs import Job
from strata.ports.jobs import JobStore
from strata.ports.sessions import SessionStore

ShownJob = NewType("ShownJob", Job)
"""A job whose report names no file that its reader may not read: the only kind that goes out."""


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

    def job(self, identity: Identity, job_id: str) -> ShownJob:
        """Raises `JobNotFound`, also for a job of a session that the caller may not read."""
        job = self.jobs.get(job_id) if is_job_id(job_id) else None
        if job is None:
            raise JobNotFound
        try:
            self.session(identity, job.session_id)
        except SessionNotFound as error:
            raise JobNotFound from error
        return self.shown(identity, job)

    def list_jobs(self, identity: Identity, session_id: str) -> list[ShownJob]:
        """Newest first."""
        return self.all_shown(identity, self.jobs.for_session(self.session(identity, session_id).session_id))

    def shown(self, identity: Identity, job: Job) -> ShownJob:
        return self.all_shown(identity, [job])[0]

    def all_shown(self, identity: Identity, jobs: Iterable[Job]) -> list[ShownJob]:
        """The jobs of sessions that the caller may read, as the caller may see them.

        What is said about a file is read by whom its `acl` named when the job ran and names now (of a file that is not
        indexed: named when it left the index).
        """
        jobs = list(jobs)
        paths: defaultdict[str, set[str]] = defaultdict(set)
        for job in jobs:
            for file in _reported(job):
                paths[job.session_id].update(filter(None, (file.path, file.named)))
        acls = {session_id: self._acls(session_id, named) for session_id, named in paths.items() if named}

        def may_know(job: Job, path: str, then: Sequence[str] | None) -> bool:
            return identity.is_named_in(then) and identity.is_named_in(acls[job.session_id].get(path))

        def readable(job: Job, files: Iterable[ReportedFile]) -> tuple[ReportedFile, ...]:
            known = (file for file in files if may_know(job, file.path, file.acl))
            return tuple(
                file if file.named is None or may_know(job, file.named, file.named_acl) else file.nameless()
                for file in known
            )

        def shown(job: Job) -> ShownJob:
            skipped, failed, notes = (
                readable(job, files) for files in (job.report.skipped, job.report.failed, job.report.notes)
            )
            report = replace(job.report, skipped=skipped, failed=failed, notes=notes)
            about = next(iter(readable(job, [] if job.error_about is None else [job.error_about])), None)
            message = job.error_message if about is None else about.reason
            return ShownJob(replace(job, report=report, error_message=message, error_about=about))

        return [shown(job) for job in jobs]

    def _acls(self, session_id: str, paths: set[str]) -> dict[str, tuple[str, ...] | None]:
        indexed = {path: entry.acl for path, entry in self.sessions.indexed_files(session_id, paths).items()}
        return {**self.sessions.left_rights(session_id, paths - indexed.keys()), **indexed}


def _reported(job: Job) -> tuple[ReportedFile, ...]:
    about = () if job.error_about is None else (job.error_about,)
    return (*job.report.skipped, *job.report.failed, *job.report.notes, *about)
