"""A large snapshot in stages that run in processes of their own: plan, prepare a batch, fill, flip.

What one stage tells the next lies in S3, under `executions/{session}/{job}/`: `plan.json` with the files and what
became of them, `manifest.json` with the keys of the packed objects, those objects (about 200 files each, as JSON
Lines), and beside each of them what its preparation has found. Every stage is safe to repeat.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Any

from strata.errors import SessionNotFound, StrataError, TemporaryError, UploadRejected
from strata.indexing.commit import Outcome
from strata.indexing.new_index import Build, Built, index_worker
from strata.indexing.pipeline import (
    Limits,
    Upload,
    keep_rights,
    key_of,
    preamble_usage,
    preparer_of,
    recorded_sources,
    whole_plan,
    workers_of,
)
from strata.indexing.plan import Plan
from strata.indexing.prepare import Prepared
from strata.indexing.side_by_side import SideBySide
from strata.indexing.wanted import Wanted, WantedFile
from strata.jobs.naming import EXECUTIONS_FOLDER, parse_object_key
from strata.jobs.running import PackedBatches, Progress, ReportProgress
from strata.model.access import Session
from strata.model.chat import Prices
from strata.model.corpus import BlobKey, FileEntry, ReportedFile, SourceFile
from strata.model.jobs import Counters, Failure, Job, JobReport, Lease
from strata.ports.blobs import BlobCache
from strata.ports.embedding import Embedder
from strata.ports.generation import Preambler
from strata.ports.objects import ObjectStore
from strata.ports.sessions import SessionStore

PACKED_FILES = 200
PACKED_BYTES = 16 * 1024 * 1024
_JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexingStages:
    """Keeps the promise of `strata.jobs.running.Stages`. The models are loaded by `prepare` alone."""

    sessions: SessionStore
    cache: BlobCache
    objects: ObjectStore
    embedder: Callable[[], Embedder]
    built: Built
    settings: Limits
    preambler: Callable[[], Preambler] | None = None
    prices: Prices = field(default_factory=Prices)

    def plan(self, job: Job, progress: ReportProgress) -> PackedBatches:
        with self._leaving_failure(_plan_key(job)):
            return self._plan(job, progress)

    def _plan(self, job: Job, progress: ReportProgress) -> PackedBatches:
        session = self._session(job)
        named = parse_object_key(job.object_key)
        if named is None:
            raise UploadRejected(f"{job.object_key!r} is not the key of an upload.")
        limits = self.settings.limits
        with self.objects.download(
            job.object_key, version=job.object_version, max_bytes=limits.max_archive_bytes
        ) as file:
            upload = Upload(file=file, upload_format=named.upload_format, caps=limits, progress=progress)
            wanted = upload.wanted(obeys_ignore_files=True)
            progress(Progress(phase="planning", total_files=len(wanted.files)))
            indexed = self.sessions.indexed_files(session.session_id)
            keep_rights(self.sessions, session, wanted, indexed)
            plan = whole_plan(wanted, indexed)
            keys = {entry.path: key_of(session, entry, self.built) for entry in plan.upserts}
            cached = self.cache.present(keys.values())
            missing = {path: key for path, key in keys.items() if key not in cached}
            by_hash = {path: key for path, key in missing.items() if wanted.files[path].position is None}
            failed: dict[str, str] = {}
            sources = chain(upload.sources(wanted, missing), recorded_sources(self.cache, wanted, by_hash, failed))
            batches = self._pack(job, sources, progress, total_files=len(missing))
        self._put(
            _plan_key(job),
            {
                "files": [_entry_json(entry) for entry in plan.upserts],
                "delete": list(plan.delete),
                "cached_files": len(cached),
                "skipped": wanted.skipped,
                "ignored_by": wanted.ignored_by,
                "failed": wanted.failed,
                "acls": wanted.acls,
                "not_on_record": failed,
                "batches": batches,
            },
        )
        manifest = f"{_folder(job)}/manifest.json"
        self._put(manifest, batches)
        return PackedBatches(manifest_key=manifest, batches=len(batches))

    def prepare(self, job: Job, batch_key: str, progress: ReportProgress) -> None:
        session, prepared = self._session(job), Prepared()
        counters = Counters()

        def advanced() -> None:
            progress(Progress(phase="preparing", done_files=prepared.files, counters=counters))

        with self._leaving_failure(_result_key(batch_key)):
            preambler = None if self.preambler is None else self.preambler()
            preparer = preparer_of(self.cache, self.embedder(), self.settings, preambler)
            with SideBySide(preparer.worker, workers=workers_of(self.settings)) as side_by_side:
                preparer.prepare(self._unpacked(session, batch_key), prepared, advanced, side_by_side)
        self._put(_result_key(batch_key), {"files": prepared.files, "failed": prepared.failed})

    def fill(self, job: Job, lease: Lease, progress: ReportProgress) -> int | None:
        with SideBySide(lambda: index_worker(self.sessions), workers=workers_of(self.settings)) as side_by_side:
            return replace(self._build(job, lease, progress), side_by_side=side_by_side).fill()

    def flip(self, job: Job, lease: Lease, index_id: int | None, progress: ReportProgress) -> JobReport:
        return self._build(job, lease, progress).flip(index_id)

    def failure(self, job: Job) -> Failure | None:
        plan = self._get(_plan_key(job)) or {}
        results = (self._get(_result_key(batch_key)) for batch_key in plan.get("batches", ()))
        return next((_failure(found["error"]) for found in chain([plan], results) if found and "error" in found), None)

    @contextmanager
    def _leaving_failure(self, key: str) -> Iterator[None]:
        """The error of a state does not say what a job's reader is told: whoever ends the job looks here."""
        try:
            yield
        except TemporaryError:
            raise
        except StrataError as error:
            self._put(key, {"error": asdict(Failure.of(error))})
            raise

    def _build(self, job: Job, lease: Lease, progress: ReportProgress) -> Build:
        outcome = self._outcome(self._session(job), job)
        if self.preambler is not None:
            outcome = replace(outcome, usage=preamble_usage(self.cache, outcome, job, self.prices))
        return Build(
            sessions=self.sessions,
            job=job,
            lease=lease,
            outcome=outcome,
            built=self.built,
            progress=progress,
        )

    def _outcome(self, session: Session, job: Job) -> Outcome:
        plan = self._required(_plan_key(job))
        entries = tuple(_entry(line) for line in plan["files"])
        prepared = Prepared(failed=dict(plan["not_on_record"]))
        for batch_key in plan["batches"]:
            result = self._required(_result_key(batch_key))
            prepared.files += result["files"]
            prepared.failed |= result["failed"]
        keys = {entry.path: key_of(session, entry, self.built) for entry in entries}
        return Outcome(
            wanted=Wanted(
                files={entry.path: WantedFile(entry=entry, position=None) for entry in entries},
                skipped=plan["skipped"],
                ignored_by=plan["ignored_by"],
                failed=plan["failed"],
                acls={path: None if acl is None else tuple(acl) for path, acl in plan["acls"].items()},
            ),
            plan=Plan(add=entries, update=(), rights=(), keep=(), delete=tuple(plan["delete"])),
            keys=keys,
            cached_files=plan["cached_files"],
            prepared=prepared,
            notes=self.cache.notes(keys.values()),
        )

    def _session(self, job: Job) -> Session:
        session = self.sessions.get(job.session_id)
        if session is None:
            raise SessionNotFound
        return session

    # --- packed objects ---

    def _pack(
        self, job: Job, sources: Iterable[tuple[BlobKey, SourceFile]], progress: ReportProgress, *, total_files: int
    ) -> list[str]:
        keys: list[str] = []
        packed = 0
        for lines in _packs(sources):
            key = f"{_folder(job)}/batch-{len(keys):05d}.jsonl"
            self.objects.put(key, b"".join(lines), content_type="application/x-ndjson")
            keys.append(key)
            packed += len(lines)
            progress(Progress(phase="planning", done_files=packed, total_files=total_files))
        return keys

    def _unpacked(self, session: Session, batch_key: str) -> Iterator[tuple[BlobKey, SourceFile]]:
        with self.objects.download(batch_key, max_bytes=self.settings.limits.max_archive_bytes) as file:
            for line in file:
                packed = json.loads(line)
                entry = _entry(packed)
                yield (
                    key_of(session, entry, self.built),
                    SourceFile(entry=entry, content=base64.b64decode(packed["content_b64"])),
                )

    def _put(self, key: str, content: object) -> None:
        self.objects.put(key, json.dumps(content).encode(), content_type=_JSON)

    def _get(self, key: str) -> Any:
        """None when there is no such object."""
        if self.objects.head(key) is None:
            return None
        with self.objects.download(key, max_bytes=self.settings.limits.max_archive_bytes) as file:
            return json.load(file)

    def _required(self, key: str) -> Any:
        content = self._get(key)
        if content is None or "error" in content:
            raise UploadRejected(f"{key} is not there: what a stage found out has been removed; send the upload again.")
        return content


def _packs(sources: Iterable[tuple[BlobKey, SourceFile]]) -> Iterator[list[bytes]]:
    lines: list[bytes] = []
    size = 0
    for _, source in sources:
        content = base64.b64encode(source.content).decode("ascii")
        lines.append(json.dumps({**_entry_json(source.entry), "content_b64": content}).encode() + b"\n")
        size += len(lines[-1])
        if len(lines) >= PACKED_FILES or size >= PACKED_BYTES:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines


def _failure(told: Mapping[str, Any]) -> Failure:
    about = told["about"]
    if about is not None:
        about = ReportedFile(**{**about, "acl": None if about["acl"] is None else tuple(about["acl"])})
    return Failure(told["code"], told["message"], about)


def _folder(job: Job) -> str:
    return f"{EXECUTIONS_FOLDER}/{job.session_id}/{job.job_id}"


def _plan_key(job: Job) -> str:
    return f"{_folder(job)}/plan.json"


def _result_key(batch_key: str) -> str:
    return f"{batch_key.removesuffix('.jsonl')}.result.json"


def _entry_json(entry: FileEntry) -> dict[str, object]:
    return {
        "path": entry.path,
        "blob_sha": entry.blob_sha,
        "acl": None if entry.acl is None else list(entry.acl),
        "last_modified": entry.last_modified and entry.last_modified.isoformat(),
        "size_bytes": entry.size_bytes,
    }


def _entry(line: Mapping[str, Any]) -> FileEntry:
    return FileEntry(
        path=line["path"],
        blob_sha=line["blob_sha"],
        acl=None if line["acl"] is None else tuple(line["acl"]),
        last_modified=None if line["last_modified"] is None else datetime.fromisoformat(line["last_modified"]),
        size_bytes=line["size_bytes"],
    )
