"""Which jobs go to an execution of the state machine instead of being worked on in place."""

from __future__ import annotations

from dataclasses import dataclass

from strata.model.jobs import Job, JobKind
from strata.ports.objects import ObjectStore
from strata.ports.sessions import SessionStore
from strata.ports.workers import Executions, ExecutionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """Snapshots that are large, that ask for a new index, or that bring their session another model."""

    sessions: SessionStore
    objects: ObjectStore
    executions: Executions
    least_archive_bytes: int
    embedding_model: str
    dimension: int
    pipeline_version: str

    def takes(self, job: Job) -> bool:
        if job.kind is not JobKind.SNAPSHOT:
            return False
        return job.reindex or self._is_large(job) or self._brings_another_model(job)

    def dispatch(self, job: Job) -> bool:
        """Whether the job's execution runs, and so will end the job; started here if it was not before."""
        return self.executions.start(job) is not ExecutionState.FAILED

    def _is_large(self, job: Job) -> bool:
        stored = self.objects.head(job.object_key, version=job.object_version)
        return stored is not None and stored.size_bytes >= self.least_archive_bytes

    def _brings_another_model(self, job: Job) -> bool:
        session = self.sessions.get(job.session_id)
        return session is not None and (
            session.embedding_model,
            session.dimension,
            session.pipeline_version,
        ) != (self.embedding_model, self.dimension, self.pipeline_version)
