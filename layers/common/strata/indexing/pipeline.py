"""A job's way from an upload to the index: read, plan, prepare, commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO, Protocol

from strata.errors import EmbeddingModelMismatch, SessionNotFound
from strata.indexing import PIPELINE_VERSION
from strata.indexing.chunking import Chunker
from strata.indexing.commit import Outcome, commit
from strata.indexing.plan import Plan, plan
from strata.indexing.prepare import Prepared, Preparer
from strata.indexing.uploads import Caps, UploadEntry, read_entries
from strata.indexing.wanted import Wanted, read_wanted, with_known_sizes
from strata.jobs.fault_points import reach
from strata.jobs.running import Progress, ReportProgress
from strata.model.access import Session
from strata.model.corpus import BlobKey, FileEntry, SourceFile
from strata.model.jobs import Job, JobReport, Lease
from strata.ports import BlobCache, Embedder, ObjectStore, SessionStore

_NOT_ON_RECORD = "It was sent by its hash alone, and no such content is on record: send it whole."
_REPORTED_ENTRIES = 50


class UploadCaps(Caps, Protocol):
    @property
    def max_archive_bytes(self) -> int: ...


class Limits(Protocol):
    """The settings of indexing."""

    @property
    def chunk_tokens(self) -> int: ...
    @property
    def overlap_tokens(self) -> int: ...
    @property
    def limits(self) -> UploadCaps: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """Makes a session's index equal to a snapshot, or applies changes to it."""

    sessions: SessionStore
    cache: BlobCache
    objects: ObjectStore
    embedder: Embedder
    settings: Limits

    def index_snapshot(self, job: Job, lease: Lease, upload_format: str, progress: ReportProgress) -> JobReport:
        """After it the index holds exactly the upload's files, but for those that are skipped or fail.

        Raises `UploadRejected`, `EmbeddingModelMismatch`, `SessionNotFound`, `StaleFence`, `EmbedderRejected`, what
        the stores raise, and what `progress` raises; readers then see what they saw before.
        """
        return self._index(job, lease, upload_format, progress, is_snapshot=True)

    def index_changes(self, job: Job, lease: Lease, progress: ReportProgress) -> JobReport:
        """Apply upserts and deletes; of several for one path the last counts. A path that is not there is no fault.

        Raises as `index_snapshot` does.
        """
        return self._index(job, lease, "jsonl", progress, is_snapshot=False)

    def _index(
        self, job: Job, lease: Lease, upload_format: str, progress: ReportProgress, *, is_snapshot: bool
    ) -> JobReport:
        session = self._session(job)
        max_bytes = self.settings.limits.max_archive_bytes
        with self.objects.download(job.object_key, version=job.object_version, max_bytes=max_bytes) as file:
            upload = _Upload(file=file, upload_format=upload_format, caps=self.settings.limits, progress=progress)
            wanted = upload.wanted(obeys_ignore_files=is_snapshot)
            progress(Progress(phase="planning", total_files=len(wanted.files)))
            difference = self._plan(session, wanted, is_snapshot=is_snapshot)
            reach("after_plan")
            outcome = self._prepare(session, upload, wanted, difference)
        total = len(difference.upserts)
        counters = outcome.counters(indexed_files=0)
        progress(Progress(phase="committing", done_files=total, total_files=total, counters=counters))
        return commit(self.sessions, job, lease, outcome)

    def _session(self, job: Job) -> Session:
        session = self.sessions.get(job.session_id)
        if session is None:
            raise SessionNotFound
        built = (session.embedding_model, session.dimension, session.pipeline_version)
        present = (self.embedder.model_id, self.embedder.dimension, PIPELINE_VERSION)
        if built != present:
            raise EmbeddingModelMismatch(
                f"Session {session.session_id!r} was built with {_named(built)}; this deployment has "
                f"{_named(present)}. Create a new session and index the project into it."
            )
        return session

    def _plan(self, session: Session, wanted: Wanted, *, is_snapshot: bool) -> Plan:
        indexed = self.sessions.indexed_files(session.session_id)
        if not is_snapshot:
            indexed = {path: indexed[path] for path in wanted.paths & indexed.keys()}
        return plan(with_known_sizes(wanted, indexed), indexed)

    def _prepare(self, session: Session, upload: _Upload, wanted: Wanted, difference: Plan) -> Outcome:
        """Everything that the commit needs is in the cache afterwards, but for the files that failed."""
        keys = {entry.path: self._key(session, entry) for entry in difference.upserts}
        cached = self.cache.present(keys.values())
        missing = {path: key for path, key in keys.items() if key not in cached}
        prepared = Prepared()
        outcome = Outcome(wanted=wanted, plan=difference, keys=keys, cached_files=len(cached), prepared=prepared)
        prepared.failed |= {path: _NOT_ON_RECORD for path in missing if wanted.files[path].position is None}

        counters = outcome.counters(indexed_files=0)

        def advanced() -> None:
            failed_files = len(wanted.failed) + len(prepared.failed)
            so_far = replace(counters, cache_miss_files=prepared.files, failed_files=failed_files)
            done = len(cached) + prepared.files + len(prepared.failed)
            upload.progress(Progress(phase="preparing", done_files=done, total_files=len(keys), counters=so_far))

        chunker = Chunker(
            counter=self.embedder,
            chunk_tokens=self.settings.chunk_tokens,
            overlap_tokens=self.settings.overlap_tokens,
        )
        preparer = Preparer(cache=self.cache, embedder=self.embedder, chunker=chunker)
        advanced()
        preparer.prepare(upload.sources(wanted, missing), prepared, advanced)
        return outcome

    def _key(self, session: Session, entry: FileEntry) -> BlobKey:
        return BlobKey(
            tenant=session.tenant,
            repo_id=session.repo_id,
            path=entry.path,
            blob_sha=entry.blob_sha,
            pipeline_version=PIPELINE_VERSION,
            embedding_model=self.embedder.model_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Upload:
    """A downloaded upload, read twice: once to know its files, once for the content of those to prepare."""

    file: BinaryIO
    upload_format: str
    caps: UploadCaps
    progress: ReportProgress

    def wanted(self, *, obeys_ignore_files: bool) -> Wanted:
        return read_wanted(
            self._entries(), max_file_bytes=self.caps.max_file_bytes, obeys_ignore_files=obeys_ignore_files
        )

    def sources(self, wanted: Wanted, missing: Mapping[str, BlobKey]) -> Iterator[tuple[BlobKey, SourceFile]]:
        """The missing files with their content, in the upload's order."""
        waited = {wanted.files[path].position: path for path in missing if wanted.files[path].position is not None}
        if not waited:
            return
        for position, entry in enumerate(self._entries(reports=False)):
            path = waited.pop(position, None)
            if path is not None and entry.content is not None:
                yield missing[path], SourceFile(entry=wanted.files[path].entry, content=entry.content)
            if not waited:
                return

    def _entries(self, *, reports: bool = True) -> Iterator[UploadEntry]:
        for number, entry in enumerate(read_entries(self.file, self.upload_format, self.caps)):
            if reports and number % _REPORTED_ENTRIES == 0:
                self.progress(Progress(phase="reading", done_files=number))
            yield entry


def _named(built: tuple[str, int, str]) -> str:
    model, dimension, pipeline_version = built
    return f"{model} ({dimension} dimensions, pipeline {pipeline_version})"
