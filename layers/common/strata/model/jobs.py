"""Jobs, their events, and the lock that keeps a session's jobs in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from strata.errors import StrataError
from strata.model.chat import ModelUsage
from strata.model.corpus import ReportedFile


class JobKind(StrEnum):
    SNAPSHOT = "snapshot"
    CHANGES = "changes"
    ROLLBACK = "rollback"


class JobStatus(StrEnum):
    """`awaiting_upload` → `queued` → `running` → an end, in which a job stays; one that waits may end at once."""

    AWAITING_UPLOAD = "awaiting_upload"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    ERROR = "error"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def ended(self) -> bool:
        return self in (JobStatus.DONE, JobStatus.ERROR, JobStatus.CANCELLED, JobStatus.EXPIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a job did, in files. `indexed_files` are those whose rows were written by this job's commit."""

    indexed_files: int = 0
    failed_files: int = 0
    cache_hit_files: int = 0
    cache_miss_files: int = 0
    skipped_files: int = 0
    deleted_files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What a job's end says beyond its counters.

    `chunks` counts the whole index after the job. `skipped`, `failed` and `notes` are capped lists with reasons, in
    the order of paths; `notes` is what parsers say about files of the upload that are in the index, `note_count` how
    many they say. `usage` is what a chat model used for the preambles of the files that this job
    prepared, in whichever of its workers; None where it writes none.
    """

    counters: Counters = field(default_factory=Counters)
    chunks: int = 0
    generation: int | None = None
    skipped: tuple[ReportedFile, ...] = ()
    failed: tuple[ReportedFile, ...] = ()
    notes: tuple[ReportedFile, ...] = ()
    note_count: int = 0
    usage: ModelUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One snapshot or changes request. `seq` is None until its content is in S3 and it was accepted.

    `starts` counts the workers that have begun it: one that kills every worker is given up. `upload_until` is when an
    upload that has not come is given up. `committing`: from here on the job can't be cancelled any more.
    `retried_as` is the job that was made of a failed one's upload. `reindex`: the snapshot goes into a new index,
    whatever little it changes. `error_message` is for everybody who may know of the job; where the fault lies in one
    file, `error_about` says more to those who may read that.
    """

    job_id: str
    session_id: str
    tenant: str
    kind: JobKind
    status: JobStatus
    object_key: str
    created_at: datetime
    updated_at: datetime
    seq: int | None = None
    fence: int | None = None
    report: JobReport = field(default_factory=JobReport)
    error_code: str | None = None
    error_message: str | None = None
    error_about: ReportedFile | None = None
    object_version: str | None = None
    starts: int = 0
    upload_until: datetime | None = None
    cancel_requested: bool = False
    committing: bool = False
    retried_as: str | None = None
    reindex: bool = False

    def ending(self, ended: Job) -> Job:
        """What this job, as it is stored, becomes when its work has come to the end `ended`.

        A job that failed after its cancel was asked for is cancelled, whatever the failure was: its worker or execution
        may have died of anything, or of the cancel itself. One that was being committed may have been applied.
        """
        if ended.status is JobStatus.ERROR and self.cancel_requested and not self.committing:
            ended = replace(ended, status=JobStatus.CANCELLED, error_code=None, error_message=None, error_about=None)
        return replace(
            ended,
            seq=self.seq,
            starts=self.starts,
            cancel_requested=self.cancel_requested,
            committing=self.committing,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """What a job failed of; the fields are those of `Job` without their `error_`."""

    code: str
    message: str
    about: ReportedFile | None = None

    @classmethod
    def of(cls, error: StrataError) -> Failure:
        file = error.about
        about = None if file is None else ReportedFile(path=file.path, reason=file.reason, acl=file.acl)
        return cls(code=error.code, message=error.message, about=about)

    def end(self, job: Job, now: datetime) -> Job:
        return replace(
            job,
            status=JobStatus.ERROR,
            error_code=self.code,
            error_message=self.message,
            error_about=self.about,
            updated_at=now,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """`name` is `index_status` (progress) or `terminal`; `seq` counts a job's events from 1."""

    seq: int
    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A held session lock. `fence` grows with every holder; every guarded write carries it.

    `deletion` is the fence under which the session's deletion was asked for: then that is the holder's only work.
    """

    session_id: str
    owner: str
    fence: int
    expires_at: datetime
    deletion: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An upload that could not become a job. `session_id` and `tenant` are None where there is no such session."""

    letter_id: str
    object_key: str
    object_version: str | None
    reason: str
    created_at: datetime
    session_id: str | None = None
    tenant: str | None = None


class ChangeOp(StrEnum):
    UPSERT = "upsert"
    DELETE = "delete"
