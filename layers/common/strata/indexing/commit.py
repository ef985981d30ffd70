"""The one transaction of a job, under its fence and seq, and the report that the job ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from strata.indexing.plan import Plan
from strata.indexing.prepare import Prepared
from strata.indexing.wanted import Wanted
from strata.model.chat import ModelUsage
from strata.model.corpus import BlobKey, Note, ReportedFile
from strata.model.jobs import Counters, Job, JobReport, Lease
from strata.ports.sessions import CommitRequest, CommitResult, SessionStore

MAX_REPORTED_FILES = 200
"""A report names so many skipped and failed files, and gives so many notes; its counters count all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that a job found out before its commit."""

    wanted: Wanted
    plan: Plan
    keys: Mapping[str, BlobKey]
    cached_files: int
    prepared: Prepared
    notes: Mapping[str, Sequence[Note]] = field(default_factory=dict)
    """By path, what parsers say about files that the upload wants and the index has after the job."""
    usage: ModelUsage | None = None
    """Of a chat model, where one writes preambles."""

    @property
    def failed(self) -> dict[str, str]:
        return {**self.wanted.failed, **self.prepared.failed}

    @property
    def removed(self) -> tuple[str, ...]:
        """Paths that leave the index because the upload does not want them; one that failed counts as failed."""
        return tuple(path for path in self.plan.delete if path not in self.wanted.failed)

    @property
    def left_rights(self) -> dict[str, tuple[str, ...] | None]:
        """The lists of files that are not in the index after the job: they count again when the files come back.

        None for one that was opened to everybody, though nothing else came of it.
        """
        written = self.wanted.files.keys() - self.failed.keys()
        return {path: acl for path, acl in self.wanted.acls.items() if path not in written}

    def counters(self, *, indexed_files: int) -> Counters:
        return Counters(
            indexed_files=indexed_files,
            failed_files=len(self.wanted.failed) + len(self.prepared.failed),
            cache_hit_files=self.cached_files + len(self.plan.keep) + len(self.plan.rights),
            cache_miss_files=self.prepared.files,
            skipped_files=len(self.wanted.skipped),
            deleted_files=len(self.removed),
        )


def commit(sessions: SessionStore, job: Job, lease: Lease, outcome: Outcome) -> JobReport:
    """Write what was prepared. A failed file's older version is removed: it is not the file any more.

    Raises `StaleFence`; nothing is written then.
    """
    if job.seq is None:
        raise ValueError(f"job {job.job_id} was never accepted")
    failed = outcome.failed
    upserts = tuple(entry for entry in outcome.plan.upserts if entry.path not in failed)
    replaced = tuple(entry.path for entry in outcome.plan.update if entry.path in failed)
    result = sessions.commit(
        CommitRequest(
            session_id=job.session_id,
            job_id=job.job_id,
            seq=job.seq,
            fence=lease.fence,
            upserts=upserts,
            keys={entry.path: outcome.keys[entry.path] for entry in upserts},
            rights=outcome.plan.rights,
            deletes=tuple(sorted({*outcome.plan.delete, *replaced})),
            left_rights=outcome.left_rights,
            counters=outcome.counters(indexed_files=len(upserts)),
        )
    )
    return report(result, outcome)


def report(result: CommitResult, outcome: Outcome) -> JobReport:
    return JobReport(
        counters=result.counters,
        chunks=result.chunks,
        generation=result.generation,
        skipped=_reported(outcome, _plain(outcome.wanted.skipped)),
        failed=_reported(outcome, _plain(outcome.failed)),
        notes=_reported(outcome, outcome.notes),
        note_count=sum(map(len, outcome.notes.values())),
        usage=outcome.usage,
    )


def _plain(reasons: Mapping[str, str]) -> dict[str, Sequence[Note]]:
    return {path: (Note(reason=reason),) for path, reason in reasons.items()}


def _reported(outcome: Outcome, notes: Mapping[str, Sequence[Note]]) -> tuple[ReportedFile, ...]:
    reported = (_reported_file(outcome.wanted, path, note) for path in sorted(notes) for note in notes[path])
    return tuple(islice(reported, MAX_REPORTED_FILES))


def _reported_file(wanted: Wanted, path: str, note: Note) -> ReportedFile:
    named = wanted.ignored_by.get(path)
    return ReportedFile(
        path=path,
        reason=note.reason,
        line=note.line,
        acl=wanted.acl_of(path),
        named=named,
        named_acl=None if named is None else wanted.acl_of(named),
    )
