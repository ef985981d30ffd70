"""In-memory fakes that keep their ports' promises; the contract suites run on them and on the real adapters."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from strata.errors import (
    EmbeddingModelMismatch,
    NoEarlierIndex,
    SessionNameTaken,
    SessionNotFound,
    StaleFence,
    TemporaryError,
)
from strata.model.access import Identity, Principal, Session
from strata.model.chat import ModelUsage
from strata.model.corpus import BlobKey, EmbeddedChunk, FileEntry, Layer, Note, PreparedBlob, Vector
from strata.model.jobs import Counters
from strata.ports.clock import Advanced, unwatched
from strata.ports.sessions import CommitRequest, CommitResult, FlipRequest, NewIndex, RollBackRequest


class FixedClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> datetime:
        """Move the clock and say its new time."""
        self._now += by
        return self._now


class FakeBlobCache:
    """A `BlobCache` in a dict; `blobs` is open to tests."""

    def __init__(self) -> None:
        self.blobs: dict[BlobKey, PreparedBlob] = {}
        self.kept_at: dict[BlobKey, datetime] = {}

    def usage(self, keys: Collection[BlobKey], *, since: datetime) -> ModelUsage:
        kept = [self.blobs[key].usage for key in set(keys) & self.blobs.keys() if self.kept_at[key] >= since]
        return sum(kept, ModelUsage())

    def present(self, keys: Collection[BlobKey]) -> set[BlobKey]:
        return set(keys) & self.blobs.keys()

    def contents(self, keys: Collection[BlobKey]) -> dict[BlobKey, bytes]:
        found = {_content_of(key): blob.source for key, blob in self.blobs.items()}
        return {key: found[_content_of(key)] for key in keys if _content_of(key) in found}

    def notes(self, keys: Collection[BlobKey]) -> dict[str, tuple[Note, ...]]:
        return {key.path: self.blobs[key].notes for key in keys if key in self.blobs and self.blobs[key].notes}

    def in_new_process(self) -> FakeBlobCache:
        return self

    def earlier_vectors(self, keys: Collection[BlobKey]) -> dict[bytes, Vector]:
        vectors: dict[bytes, Vector] = {}
        for key in keys:
            versions = [blob for kept, blob in self.blobs.items() if replace(kept, blob_sha=key.blob_sha) == key]
            for embedded in versions[-1].chunks if versions else ():
                if embedded.embedding is None:
                    continue
                vectors[embedded.text_key] = embedded.embedding.astype(np.float16).astype(np.float32)
        return vectors

    def keep(self, blobs: Sequence[PreparedBlob]) -> None:
        for blob in blobs:
            self.blobs.setdefault(blob.key, blob)
            self.kept_at.setdefault(blob.key, datetime.now(UTC))


@dataclass
class _Index:
    """An index that is not live: being filled by a job, or the one before."""

    session: Session
    job_id: str | None = None
    fence: int = 0
    files: dict[str, FileEntry] = field(default_factory=dict)
    chunks: dict[str, tuple[EmbeddedChunk, ...]] = field(default_factory=dict)
    counted: set[Layer] = field(default_factory=set)


class FakeSessionStore:
    """A `SessionStore` in dicts; it reads prepared files from the cache that it is given.

    `chunks[session_id][path]` and `files[session_id][path]` are what the active index holds.
    """

    def __init__(self, cache: FakeBlobCache | None = None) -> None:
        self.cache = cache or FakeBlobCache()
        self.sessions: dict[str, Session] = {}
        self.files: dict[str, dict[str, FileEntry]] = {}
        self.chunks: dict[str, dict[str, tuple[EmbeddedChunk, ...]]] = {}
        self.left: dict[str, dict[str, tuple[str, ...]]] = {}
        """By session, the lists of files that have left its index."""
        self.drift = 0.0
        self.indexes: dict[int, _Index] = {}
        self.previous: dict[str, int] = {}
        self.deleted: dict[str, Session] = {}
        """Sessions that were deleted and are still to be purged."""
        self._numbers: dict[str, Session] = {}
        self._applied: dict[str, tuple[str, CommitResult]] = {}
        self._lock = threading.Lock()

    def create(
        self,
        *,
        session_id: str,
        identity: Identity,
        project_id: str,
        embedding_model: str,
        dimension: int,
        pipeline_version: str,
        readers: Sequence[Principal] = (),
    ) -> tuple[Session, bool]:
        with self._lock:
            if found := self.sessions.get(session_id):
                if not found.writable_by(identity):
                    raise SessionNameTaken
                return found, False
            if session_id in self.deleted:
                raise SessionNameTaken
            before = self._numbers.get(session_id)
            session = Session(
                session_id=session_id,
                tenant=identity.tenant,
                project_id=project_id,
                repo_id=project_id,
                owner=identity.user,
                readers=tuple(sorted(set(readers))),
                generation=0 if before is None else before.generation + 1,
                applied_seq=0 if before is None else before.applied_seq,
                fence=0 if before is None else before.fence,
                embedding_model=embedding_model,
                dimension=dimension,
                pipeline_version=pipeline_version,
            )
            self.sessions[session_id] = session
            self.files[session_id], self.left[session_id] = {}, {}
            self.chunks[session_id] = {}
            return session, True

    def get(self, session_id: str) -> Session | None:
        return self.sessions.get(session_id)

    def claim(self, session_id: str, fence: int) -> None:
        with self._lock:
            session = self.sessions.get(session_id)
            if session is None:
                raise SessionNotFound
            if session.fence > fence:
                raise StaleFence
            self.sessions[session_id] = replace(session, fence=fence)

    def set_readers(self, session_id: str, readers: Sequence[Principal]) -> Session:
        with self._lock:
            if session_id not in self.sessions:
                raise SessionNotFound
            self.sessions[session_id] = replace(self.sessions[session_id], readers=tuple(sorted(set(readers))))
            return self.sessions[session_id]

    def delete(self, session_id: str, fence: int) -> bool:
        with self._lock:
            session = self.sessions.get(session_id)
            if session is None:
                if found := self.deleted.get(session_id):
                    self.deleted[session_id] = replace(found, fence=max(found.fence, fence))
                return True
            if session.fence >= fence:
                return False
            del self.sessions[session_id], self.files[session_id], self.left[session_id]
            self._applied.pop(session_id, None)
            self.deleted[session_id] = replace(session, fence=fence)
            return True

    def purge(self, session_id: str) -> bool:
        session = self.deleted.get(session_id)
        if session is None or session_id not in self.chunks:
            return False
        del self.chunks[session_id]
        repository = (session.tenant, session.repo_id)
        if all((living.tenant, living.repo_id) != repository for living in self.sessions.values()):
            for key in [key for key in self.cache.blobs if (key.tenant, key.repo_id) == repository]:
                del self.cache.blobs[key]
        return True

    def end_purge(self, session_id: str) -> None:
        if session := self.deleted.pop(session_id, None):
            self._numbers[session_id] = session

    def list_readable(self, identity: Identity) -> list[Session]:
        return [session for _, session in sorted(self.sessions.items()) if session.readable_by(identity)]

    def indexed_files(self, session_id: str, paths: Collection[str] | None = None) -> dict[str, FileEntry]:
        files = self.files.get(session_id, {})
        return {path: entry for path, entry in files.items() if paths is None or path in paths}

    def left_rights(self, session_id: str, paths: Collection[str]) -> dict[str, tuple[str, ...]]:
        return {path: acl for path, acl in self.left.get(session_id, {}).items() if path in paths}

    def length_drift(self, session_id: str) -> float:
        return self.drift

    def commit(self, request: CommitRequest) -> CommitResult:
        paths = [*request.deletes, *(entry.path for entry in (*request.upserts, *request.rights))]
        if len(set(paths)) != len(paths):
            raise ValueError("a commit names a path once")
        with self._lock:
            session, replayed = self._turn(request)
            if replayed is not None:
                return replayed
            prepared = self._prepared(session, request.upserts, request.keys)
            files, chunks = self.files[request.session_id], self.chunks[request.session_id]
            for path in (*request.deletes, *(entry.path for entry in request.upserts)):
                files.pop(path, None)
                chunks.pop(path, None)
            for entry in request.upserts:
                files[entry.path] = entry
                chunks[entry.path] = prepared[entry.path].chunks
            for entry in request.rights:
                if found := files.get(entry.path):
                    files[entry.path] = replace(found, acl=entry.acl, last_modified=entry.last_modified)
            self._keep_left(request.session_id, request.left_rights)
            return self._finish(session, request, request.counters)

    def begin_index(self, new: NewIndex) -> int:
        with self._lock:
            session = self.sessions.get(new.session_id)
            if session is None:
                raise SessionNotFound
            if new.fence < session.fence or new.seq <= session.applied_seq:
                raise StaleFence
            built = replace(
                session,
                embedding_model=new.embedding_model,
                dimension=new.dimension,
                pipeline_version=new.pipeline_version,
            )
            for index_id, index in self.indexes.items():
                if index.job_id == new.job_id and index.fence <= new.fence and _same_model(index.session, built):
                    index.fence = new.fence
                    return index_id
            index_id = max(self.indexes, default=0) + 1
            self.indexes[index_id] = _Index(session=built, job_id=new.job_id, fence=new.fence)
            return index_id

    def fill(
        self, index_id: int, *, job_id: str, fence: int, entries: Sequence[FileEntry], keys: Mapping[str, BlobKey]
    ) -> int:
        with self._lock:
            index = self._held(index_id, job_id, fence)
            new = [entry for entry in entries if entry.path not in index.files]
            prepared = self._prepared(index.session, new, keys)
            index.files |= {entry.path: entry for entry in new}
            index.counted.clear()
            index.chunks |= {path: blob.chunks for path, blob in prepared.items()}
            return sum(len(blob.chunks) for blob in prepared.values())

    def count(self, index_id: int, *, job_id: str, fence: int, layer: Layer) -> None:
        with self._lock:
            self._held(index_id, job_id, fence).counted.add(layer)

    def tidy(self, index_id: int) -> None:
        """Nothing here is slow."""

    def build_term_blocks(self, index_id: int) -> None:
        """Nothing here is slow."""

    def build_cells(self, index_id: int) -> None:
        """Nothing here is slow."""

    def in_new_process(self) -> FakeSessionStore:
        return self

    def flip(self, request: FlipRequest) -> CommitResult:
        with self._lock:
            session, replayed = self._turn(request)
            if replayed is not None:
                return replayed
            index = self._held(request.index_id, request.job_id, request.fence)
            if len(index.files) != request.files:
                raise TemporaryError("The new index holds other files.")
            if any(each.chunk.layer not in index.counted for chunks in index.chunks.values() for each in chunks):
                raise TemporaryError("The new index is not counted.")
            held_files = bool(self.files[request.session_id])
            self._swap(session, request.index_id)
            if not held_files:
                del self.previous[request.session_id]
            self._keep_left(request.session_id, request.left_rights)
            return self._finish(self.sessions[request.session_id], request, request.counters)

    def roll_back(self, request: RollBackRequest) -> CommitResult:
        with self._lock:
            session, replayed = self._turn(request)
            if replayed is not None:
                return replayed
            if request.session_id not in self.previous:
                raise NoEarlierIndex
            before = {
                path: entry.acl for path, entry in self.files[request.session_id].items() if entry.acl is not None
            }
            self._swap(session, self.previous[request.session_id])
            files = self.files[request.session_id]
            for path, acl in {**self.left[request.session_id], **before}.items():
                if path in files:
                    files[path] = replace(files[path], acl=acl)
            self._keep_left(request.session_id, {path: acl for path, acl in before.items() if path not in files})
            return self._finish(self.sessions[request.session_id], request, Counters())

    def applied(self, session_id: str, *, job_id: str, seq: int) -> CommitResult | None:
        session = self.sessions.get(session_id)
        if session is None:
            raise SessionNotFound
        last_job, last = self._applied.get(session_id, ("", None))
        return replace(last, replayed=True) if last and last_job == job_id and seq <= session.applied_seq else None

    def collect_indexes(self, session_id: str, *, but_of_job: str | None = None, advanced: Advanced = unwatched) -> int:
        with self._lock:
            useless = [
                index_id
                for index_id, index in self.indexes.items()
                if index.session.session_id == session_id
                and index_id != self.previous.get(session_id)
                and (index.job_id is None or index.job_id != but_of_job)
            ]
            for index_id in useless:
                del self.indexes[index_id]
                advanced()
            return len(useless)

    def _turn(self, request: CommitRequest | FlipRequest | RollBackRequest) -> tuple[Session, CommitResult | None]:
        session = self.sessions.get(request.session_id)
        if session is None:
            raise SessionNotFound
        job_id, last = self._applied.get(request.session_id, ("", None))
        if last is not None and job_id == request.job_id and request.seq <= session.applied_seq:
            return session, replace(last, replayed=True)
        if request.fence < session.fence or request.seq <= session.applied_seq:
            raise StaleFence
        return session, None

    def _held(self, index_id: int, job_id: str, fence: int) -> _Index:
        index = self.indexes.get(index_id)
        if index is None or index.job_id != job_id or fence < index.fence:
            raise StaleFence
        if fence < self.sessions[index.session.session_id].fence:
            raise StaleFence
        index.fence = fence
        return index

    def _swap(self, session: Session, index_id: int) -> None:
        """The live index becomes the one before."""
        name, coming = session.session_id, self.indexes.pop(index_id)
        leaving = max([index_id, *self.indexes]) + 1
        self.indexes[leaving] = _Index(session=session, files=self.files[name], chunks=self.chunks[name])
        self.previous[name] = leaving
        self.files[name], self.chunks[name] = coming.files, coming.chunks
        self.sessions[name] = replace(
            session,
            embedding_model=coming.session.embedding_model,
            dimension=coming.session.dimension,
            pipeline_version=coming.session.pipeline_version,
        )

    def _keep_left(self, session_id: str, left: Mapping[str, tuple[str, ...] | None]) -> None:
        known = {**self.left[session_id], **left}
        kept = {path: acl for path, acl in known.items() if path in left or path not in self.files[session_id]}
        self.left[session_id] = {path: acl for path, acl in kept.items() if acl is not None}

    def _finish(
        self, session: Session, request: CommitRequest | FlipRequest | RollBackRequest, counters: Counters
    ) -> CommitResult:
        result = CommitResult(
            generation=session.generation + 1,
            chunks=sum(map(len, self.chunks[request.session_id].values())),
            counters=counters,
            replayed=False,
        )
        self.sessions[request.session_id] = replace(
            session, generation=result.generation, applied_seq=request.seq, fence=request.fence
        )
        self._applied[request.session_id] = (request.job_id, result)
        return result

    def _prepared(
        self, session: Session, entries: Sequence[FileEntry], keys: Mapping[str, BlobKey]
    ) -> dict[str, PreparedBlob]:
        found: dict[str, PreparedBlob] = {}
        for entry in entries:
            key = keys[entry.path]
            if (key.embedding_model, key.pipeline_version) != (session.embedding_model, session.pipeline_version):
                raise EmbeddingModelMismatch
            if (key.tenant, key.repo_id, key.path, key.blob_sha) != (
                session.tenant,
                session.repo_id,
                entry.path,
                entry.blob_sha,
            ):
                raise ValueError(f"the key of {entry.path} does not belong to this file of this session")
            blob = self.cache.blobs.get(key)
            if blob is None:
                raise TemporaryError(f"{entry.path} is not prepared.")
            vectors = [chunk.embedding for chunk in blob.chunks if chunk.embedding is not None]
            if any(len(vector) != session.dimension for vector in vectors):
                raise EmbeddingModelMismatch
            found[entry.path] = blob
        return found


def _same_model(one: Session, other: Session) -> bool:
    return (one.embedding_model, one.dimension, one.pipeline_version) == (
        other.embedding_model,
        other.dimension,
        other.pipeline_version,
    )


def _content_of(key: BlobKey) -> tuple[str, str, str, str]:
    return key.tenant, key.repo_id, key.path, key.blob_sha
