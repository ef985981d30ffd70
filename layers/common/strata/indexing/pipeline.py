"""A job's way from an upload to the index: read, plan, prepare, commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Protocol

from strata.errors import EmbeddingModelMismatch, SessionNotFound
from strata.indexing import pipeline_version
from strata.indexing.chunking.chunker import Chunker
from strata.indexing.commit import Outcome, commit
from strata.indexing.new_index import Build, Built, IndexPart, index_worker
from strata.indexing.plan import Plan, plan
from strata.indexing.prepare import Prepared, Preparer
from strata.indexing.side_by_side import SideBySide, usable_cores
from strata.indexing.text_length import text_counter
from strata.indexing.uploads.entries import UploadEntry
from strata.indexing.uploads.metering import Caps
from strata.indexing.uploads.reading import read_entries
from strata.indexing.wanted import Wanted, read_wanted, with_known_sizes
from strata.jobs.fault_points import reach
from strata.jobs.running import Progress, ReportProgress
from strata.model.access import Session
from strata.model.chat import ModelUsage, Prices
from strata.model.corpus import BlobKey, FileEntry, SourceFile
from strata.model.jobs import Job, JobReport, Lease
from strata.ports.blobs import BlobCache
from strata.ports.embedding import Embedder
from strata.ports.generation import Preambler
from strata.ports.objects import ObjectStore
from strata.ports.sessions import RollBackRequest, SessionStore

_NOT_ON_RECORD = "It was sent by its hash alone, and no such content is on record: send it whole."
_REPORTED_ENTRIES = 50
_MOST_LENGTH_DRIFT = 0.1
"""From here on BM25's weights, made with the pinned average lengths, are made anew."""
FIRST_FILES = 100
"""From here on an empty session gets a new index too: its batches are written on all cores, a commit on one."""
_RECORDED_FILES = 64
_SAME_WORKERS_FILES = 1_000
"""Up to here those who have prepared the files write them too, which saves a tenth of a second; of more, what they
remember of preparing (40 MB each) would be in the way."""


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
    def new_index_files(self) -> int: ...
    @property
    def prepare_workers(self) -> int: ...
    @property
    def limits(self) -> UploadCaps: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """Makes a session's index equal to a snapshot, or applies changes to it.

    With a `preambler` a chat model writes a preamble for chunks; `prices` are that model's.
    """

    sessions: SessionStore
    cache: BlobCache
    objects: ObjectStore
    embedder: Embedder
    settings: Limits
    preambler: Preambler | None = None
    prices: Prices = field(default_factory=Prices)

    def index_snapshot(self, job: Job, lease: Lease, upload_format: str, progress: ReportProgress) -> JobReport:
        """After it the index holds exactly the upload's files, but for those that are skipped or fail.

        Raises `UploadRejected`, `EmbeddingModelMismatch`, `SessionNotFound`, `StaleFence`, `EmbedderRejected`, what
        the stores raise, and what `progress` raises; readers then see what they saw before.

        It builds a new index beside the live one, instead of changing that, when the job asks for it, when the session
        was built with another model or pipeline, when its average lengths have drifted, and when much is to be written
        (sooner into an empty session).
        """
        return self._index(job, lease, upload_format, progress, is_snapshot=True)

    def index_changes(self, job: Job, lease: Lease, progress: ReportProgress) -> JobReport:
        """Apply upserts and deletes; of several for one path the last counts. A path that is not there is no fault.

        Raises as `index_snapshot` does.
        """
        return self._index(job, lease, "jsonl", progress, is_snapshot=False)

    def roll_back(self, job: Job, lease: Lease, progress: ReportProgress) -> JobReport:
        """Make the index before the live one again. Raises `NoEarlierIndex`, `SessionNotFound` and `StaleFence`."""
        if job.seq is None:
            raise ValueError(f"job {job.job_id} was never accepted")
        progress(Progress(phase="committing"))
        result = self.sessions.roll_back(
            RollBackRequest(session_id=job.session_id, job_id=job.job_id, seq=job.seq, fence=lease.fence)
        )
        return JobReport(counters=result.counters, chunks=result.chunks, generation=result.generation)

    def _index(
        self, job: Job, lease: Lease, upload_format: str, progress: ReportProgress, *, is_snapshot: bool
    ) -> JobReport:
        with SideBySide(self._worker, workers=workers_of(self.settings)) as side_by_side:
            return self._indexed(job, lease, upload_format, progress, side_by_side, is_snapshot=is_snapshot)

    def _worker(self) -> Callable[[Any], Any]:
        """In a process of its own: it prepares batches and does the parts of a new index, over one connection."""
        prepared, done = self._preparer.worker(), index_worker(self.sessions)
        return lambda batch: done(batch) if isinstance(batch, IndexPart) else prepared(batch)

    @property
    def _preparer(self) -> Preparer:
        return preparer_of(self.cache, self.embedder, self.settings, self.preambler)

    def _indexed(
        self,
        job: Job,
        lease: Lease,
        upload_format: str,
        progress: ReportProgress,
        side_by_side: SideBySide[Any, Any],
        *,
        is_snapshot: bool,
    ) -> JobReport:
        session = self._session(job, is_snapshot=is_snapshot)
        max_bytes = self.settings.limits.max_archive_bytes
        with self.objects.download(job.object_key, version=job.object_version, max_bytes=max_bytes) as file:
            upload = Upload(file=file, upload_format=upload_format, caps=self.settings.limits, progress=progress)
            wanted = upload.wanted(obeys_ignore_files=is_snapshot)
            progress(Progress(phase="planning", total_files=len(wanted.files)))
            indexed = self.sessions.indexed_files(session.session_id, None if is_snapshot else wanted.paths)
            keep_rights(self.sessions, session, wanted, indexed)
            difference = plan(with_known_sizes(wanted, indexed), indexed)
            anew = is_snapshot and self._is_built_anew(session, job, difference, is_empty=not indexed)
            if anew:
                difference = whole_plan(wanted, indexed)
            reach("after_plan")
            outcome = self._prepare(session, upload, wanted, difference, side_by_side)
        if self.preambler is not None:
            outcome = replace(outcome, usage=preamble_usage(self.cache, outcome, job, self.prices))
        if not anew:
            total, counters = len(difference.upserts), outcome.counters(indexed_files=0)
            progress(Progress(phase="committing", done_files=total, total_files=total, counters=counters))
            return commit(self.sessions, job, lease, outcome)
        build = Build(
            sessions=self.sessions,
            job=job,
            lease=lease,
            outcome=outcome,
            built=self._built,
            progress=progress,
            side_by_side=side_by_side,
            is_first=not indexed,
        )
        return build.run()

    @property
    def _built(self) -> Built:
        return Built(
            embedding_model=self.embedder.model_id,
            dimension=self.embedder.dimension,
            pipeline_version=pipeline_version("" if self.preambler is None else self.preambler.version),
        )

    def _session(self, job: Job, *, is_snapshot: bool) -> Session:
        session = self.sessions.get(job.session_id)
        if session is None:
            raise SessionNotFound
        if not is_snapshot and _built_of(session) != self._built:
            raise EmbeddingModelMismatch(
                f"Session {session.session_id!r} was built with {_named(_built_of(session))}; this deployment has "
                f"{_named(self._built)}. Index the whole project anew: strata index PATH --session NAME --reindex."
            )
        return session

    def _is_built_anew(self, session: Session, job: Job, difference: Plan, *, is_empty: bool) -> bool:
        limit = self.settings.new_index_files
        return (
            job.reindex
            or _built_of(session) != self._built
            or len(difference.upserts) >= (min(limit, FIRST_FILES) if is_empty else limit)
            or (bool(difference.upserts) and self.sessions.length_drift(session.session_id) > _MOST_LENGTH_DRIFT)
        )

    def _prepare(
        self, session: Session, upload: Upload, wanted: Wanted, difference: Plan, side_by_side: SideBySide[Any, Any]
    ) -> Outcome:
        """Everything that the commit needs is in the cache afterwards, but for the files that failed."""
        keys = {entry.path: key_of(session, entry, self._built) for entry in difference.upserts}
        cached = self.cache.present(keys.values())
        missing = {path: key for path, key in keys.items() if key not in cached}
        prepared = Prepared()
        outcome = Outcome(wanted=wanted, plan=difference, keys=keys, cached_files=len(cached), prepared=prepared)
        by_hash = {path: key for path, key in missing.items() if wanted.files[path].position is None}

        counters = outcome.counters(indexed_files=0)

        def advanced() -> None:
            failed_files = len(wanted.failed) + len(prepared.failed)
            so_far = replace(counters, cache_miss_files=prepared.files, failed_files=failed_files)
            done = len(cached) + prepared.files + len(prepared.failed)
            upload.progress(Progress(phase="preparing", done_files=done, total_files=len(keys), counters=so_far))

        preparer = self._preparer
        advanced()
        preparer.prepare(upload.sources(wanted, missing), prepared, advanced, side_by_side)
        recorded = recorded_sources(self.cache, wanted, by_hash, prepared.failed)
        preparer.prepare(recorded, prepared, advanced, side_by_side)
        if len(keys) > _SAME_WORKERS_FILES:
            side_by_side.end()
        unchanged = (key_of(session, entry, self._built) for entry in (*difference.keep, *difference.rights))
        return replace(outcome, notes=self.cache.notes([*keys.values(), *unchanged]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
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


def keep_rights(sessions: SessionStore, session: Session, wanted: Wanted, indexed: Mapping[str, FileEntry]) -> None:
    """A file that the upload names no readers for keeps its list, or gets back the one that it left the index with."""
    wanted.keep_rights({path: entry.acl for path, entry in indexed.items()})
    if unknown := wanted.without_rights(indexed):
        wanted.keep_rights(sessions.left_rights(session.session_id, unknown))


def preparer_of(cache: BlobCache, embedder: Embedder, settings: Limits, preambler: Preambler | None = None) -> Preparer:
    """Its chunks leave the tokens free that a preamble takes."""
    chunker = Chunker(
        counter=text_counter(embedder),
        chunk_tokens=settings.chunk_tokens,
        overlap_tokens=settings.overlap_tokens,
        reserved_tokens=0 if preambler is None else preambler.reserved_tokens,
    )
    return Preparer(
        cache=cache,
        embedder=embedder,
        chunker=chunker,
        preambler=preambler,
    )


def preamble_usage(cache: BlobCache, outcome: Outcome, job: Job, prices: Prices) -> ModelUsage:
    """What preambles took of the files that were prepared since the job began, by whichever of its workers."""
    usage = cache.usage(list(outcome.keys.values()), since=job.created_at)
    return replace(usage, cost=prices.cost(usage))


def workers_of(settings: Limits) -> int:
    """Processes that prepare files, and write them, side by side."""
    return settings.prepare_workers or usable_cores()


def recorded_sources(
    cache: BlobCache, wanted: Wanted, by_hash: Mapping[str, BlobKey], failed: dict[str, str]
) -> Iterator[tuple[BlobKey, SourceFile]]:
    """Files that were sent by their hash, with the content that an earlier model or pipeline left on record.

    One that is on no record is put into `failed`.
    """
    paths = list(by_hash)
    for start in range(0, len(paths), _RECORDED_FILES):
        keys = [by_hash[path] for path in paths[start : start + _RECORDED_FILES]]
        contents = cache.contents(keys)
        for key in keys:
            if key in contents:
                yield key, SourceFile(entry=wanted.files[key.path].entry, content=contents[key])
            else:
                failed[key.path] = _NOT_ON_RECORD


def key_of(session: Session, entry: FileEntry, built: Built) -> BlobKey:
    """The name of a session's file in the cache of prepared files."""
    return BlobKey(
        tenant=session.tenant,
        repo_id=session.repo_id,
        path=entry.path,
        blob_sha=entry.blob_sha,
        pipeline_version=built.pipeline_version,
        embedding_model=built.embedding_model,
    )


def whole_plan(wanted: Wanted, indexed: Mapping[str, FileEntry]) -> Plan:
    """The plan of a new index: everything is written, and what the live one holds beyond that is deleted."""
    everything = plan(with_known_sizes(wanted, indexed), {})
    return replace(everything, delete=tuple(sorted(indexed.keys() - wanted.files.keys())))


def _built_of(session: Session) -> Built:
    return Built(
        embedding_model=session.embedding_model,
        dimension=session.dimension,
        pipeline_version=session.pipeline_version,
    )


def _named(built: Built) -> str:
    return f"{built.embedding_model} ({built.dimension} dimensions, pipeline {built.pipeline_version})"
