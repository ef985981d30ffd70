"""Sessions and jobs on the wire."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from strata.jobs.reading import ShownJob
from strata.model.access import Session
from strata.model.jobs import DeadLetter, JobKind, JobStatus


class View(BaseModel):
    """What is only ever sent: built from the model, frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SessionView(View):
    session_id: str
    project_id: str
    repo_id: str
    owner: str
    readers: list[str]
    generation: int
    embedding_model: str
    dimension: int

    @classmethod
    def of(cls, session: Session) -> SessionView:
        return cls(
            session_id=session.session_id,
            project_id=session.project_id,
            repo_id=session.repo_id,
            owner=session.owner,
            readers=list(session.readers),
            generation=session.generation,
            embedding_model=session.embedding_model,
            dimension=session.dimension,
        )


class SessionList(View):
    sessions: list[SessionView]


class CountersView(View):
    indexed_files: int
    failed_files: int
    cache_hit_files: int
    cache_miss_files: int
    skipped_files: int
    deleted_files: int


class FileNote(View):
    """A file that was not indexed, and why."""

    path: str
    reason: str


class ParserNote(View):
    """What could not be made of a file that is indexed all the same, and why; `line` is null for the whole of it."""

    path: str
    line: int | None
    reason: str


class ModelUsageView(View):
    """What a chat model used for preambles; `cost` is null where no prices are configured."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None


class JobError(View):
    code: str
    message: str


class JobLinks(View):
    self: str
    events: str


class JobView(View):
    """`skipped`, `failed` and `notes` hold the first of each kind, about files that the caller may read; the counters
    and `note_count` tell how many there were in all. `preambles` is null
    where no chat model writes any.
    """

    job_id: str
    session_id: str
    kind: JobKind
    status: JobStatus
    seq: int | None
    created_at: datetime
    updated_at: datetime
    counters: CountersView
    chunks: int
    generation: int | None
    skipped: list[FileNote]
    failed: list[FileNote]
    notes: list[ParserNote]
    note_count: int
    preambles: ModelUsageView | None
    error: JobError | None
    links: JobLinks

    @classmethod
    def of(cls, job: ShownJob) -> JobView:
        report = job.report
        return cls(
            job_id=job.job_id,
            session_id=job.session_id,
            kind=job.kind,
            status=job.status,
            seq=job.seq,
            created_at=job.created_at,
            updated_at=job.updated_at,
            counters=CountersView(
                indexed_files=report.counters.indexed_files,
                failed_files=report.counters.failed_files,
                cache_hit_files=report.counters.cache_hit_files,
                cache_miss_files=report.counters.cache_miss_files,
                skipped_files=report.counters.skipped_files,
                deleted_files=report.counters.deleted_files,
            ),
            chunks=report.chunks,
            generation=report.generation,
            skipped=[FileNote(path=file.path, reason=file.reason) for file in report.skipped],
            failed=[FileNote(path=file.path, reason=file.reason) for file in report.failed],
            notes=[ParserNote(path=file.path, line=file.line, reason=file.reason) for file in report.notes],
            note_count=report.note_count,
            preambles=None if report.usage is None else ModelUsageView(**asdict(report.usage)),
            error=None if job.error_code is None else JobError(code=job.error_code, message=job.error_message or ""),
            links=JobLinks(self=f"/api/rag/jobs/{job.job_id}", events=f"/api/rag/jobs/{job.job_id}/events"),
        )


class JobList(View):
    jobs: list[JobView]


class DeadLetterView(View):
    """An upload that could not become a job, and why; `session_id` is null where there is no such session."""

    id: str
    session_id: str | None
    object_key: str
    reason: str
    created_at: datetime

    @classmethod
    def of(cls, letter: DeadLetter) -> DeadLetterView:
        return cls(
            id=letter.letter_id,
            session_id=letter.session_id,
            object_key=letter.object_key,
            reason=letter.reason,
            created_at=letter.created_at,
        )


class FailureList(View):
    """Both newest first. Each can be put back by its id."""

    jobs: list[JobView]
    dead_letters: list[DeadLetterView]


class JobChanged(View):
    job: JobView
