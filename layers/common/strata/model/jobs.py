"""Jobs, their events, and the lock that keeps a session's jobs in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from strata.model.corpus import SkippedFile


class JobKind(StrEnum):
    SNAPSHOT = "snapshot"
    CHANGES = "changes"
    ROLLBACK = "rollback"


class JobStatus(StrEnum):
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

    `chunks` counts the whole index after the job; `skipped` and `failed` are capped lists with reasons.
    """

    counters: Counters = field(default_factory=Counters)
    chunks: int = 0
    generation: int | None = None
    skipped: tuple[SkippedFile, ...] = ()
    failed: tuple[SkippedFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One snapshot or changes request. `seq` is None until its content is in S3 and it was accepted.

    `starts` counts the workers that have begun it: one that kills every worker is given up. `reindex`: the snapshot
    goes into a new index, whatever little it changes.
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
    object_version: str | None = None
    starts: int = 0
    reindex: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """`name` is `index_status` (progress) or `terminal`; `seq` counts a job's events from 1."""

    seq: int
    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A held session lock. `fence` grows with every holder; every guarded write carries it."""

    session_id: str
    owner: str
    fence: int
    expires_at: datetime


class ChangeOp(StrEnum):
    UPSERT = "upsert"
    DELETE = "delete"
