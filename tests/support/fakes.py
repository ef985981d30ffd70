"""In-memory fakes that keep their ports' promises; the contract suites run on them and on the real adapters."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from strata.errors import EmbeddingModelMismatch, SessionNameTaken, SessionNotFound, StaleFence, TemporaryError
from strata.model.access import Identity, Principal, Session
from strata.model.corpus import BlobKey, EmbeddedChunk, FileEntry, PreparedBlob, Vector
from strata.ports import CommitRequest, CommitResult


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

    def present(self, keys: Collection[BlobKey]) -> set[BlobKey]:
        return set(keys) & self.blobs.keys()

    def earlier_vectors(self, keys: Collection[BlobKey]) -> dict[bytes, Vector]:
        vectors: dict[bytes, Vector] = {}
        for key in keys:
            versions = [blob for kept, blob in self.blobs.items() if replace(kept, blob_sha=key.blob_sha) == key]
            for embedded in versions[-1].chunks if versions else ():
                vectors[embedded.chunk.text_key] = embedded.embedding.astype(np.float16).astype(np.float32)
        return vectors

    def keep(self, blobs: Sequence[PreparedBlob]) -> None:
        for blob in blobs:
            self.blobs.setdefault(blob.key, blob)


class FakeSessionStore:
    """A `SessionStore` in dicts; it reads prepared files from the cache that it is given.

    `chunks[session_id][path]` and `files[session_id][path]` are what the active index holds.
    """

    def __init__(self, cache: FakeBlobCache | None = None) -> None:
        self.cache = cache or FakeBlobCache()
        self.sessions: dict[str, Session] = {}
        self.files: dict[str, dict[str, FileEntry]] = {}
        self.chunks: dict[str, dict[str, tuple[EmbeddedChunk, ...]]] = {}
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
            self.files[session_id] = {}
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
            del self.sessions[session_id], self.files[session_id]
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

    def indexed_files(self, session_id: str) -> dict[str, FileEntry]:
        return dict(self.files.get(session_id, {}))

    def commit(self, request: CommitRequest) -> CommitResult:
        paths = [*request.deletes, *(entry.path for entry in (*request.upserts, *request.rights))]
        if len(set(paths)) != len(paths):
            raise ValueError("a commit names a path once")
        with self._lock:
            session = self.sessions.get(request.session_id)
            if session is None:
                raise SessionNotFound
            job_id, last = self._applied.get(request.session_id, ("", None))
            if last is not None and job_id == request.job_id and request.seq <= session.applied_seq:
                return replace(last, replayed=True)
            if request.fence < session.fence or request.seq <= session.applied_seq:
                raise StaleFence
            prepared = self._prepared(session, request)
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
            result = CommitResult(
                generation=session.generation + 1,
                chunks=sum(map(len, chunks.values())),
                counters=request.counters,
                replayed=False,
            )
            self.sessions[request.session_id] = replace(
                session, generation=result.generation, applied_seq=request.seq, fence=request.fence
            )
            self._applied[request.session_id] = (request.job_id, result)
            return result

    def _prepared(self, session: Session, request: CommitRequest) -> dict[str, PreparedBlob]:
        found: dict[str, PreparedBlob] = {}
        for entry in request.upserts:
            key = request.keys[entry.path]
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
            if any(len(chunk.embedding) != session.dimension for chunk in blob.chunks):
                raise EmbeddingModelMismatch
            found[entry.path] = blob
        return found
