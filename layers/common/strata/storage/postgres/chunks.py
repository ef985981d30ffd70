"""One job's commit: the rows of an index, changed in one transaction."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from datetime import UTC
from typing import Any, NamedTuple

from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from strata.errors import EmbeddingModelMismatch, SessionNotFound, StaleFence, TemporaryError
from strata.jobs.fault_points import reach
from strata.model.corpus import BlobKey, FileEntry
from strata.model.jobs import Counters
from strata.ports import CommitRequest, CommitResult
from strata.storage.postgres.connection import Connection
from strata.storage.postgres.queries import queries


class Committed(NamedTuple):
    """`written`: how many chunks this commit put into the index."""

    result: CommitResult
    index_id: int
    written: int


def commit(connection: Connection, request: CommitRequest) -> Committed:
    """Apply the request inside the transaction that the caller has opened; see `strata.ports.SessionStore.commit`.

    Raises `SessionNotFound`, `StaleFence`, `EmbeddingModelMismatch`, and `TemporaryError` when a file to write is not
    in the cache (it was collected since the job prepared it): preparing again helps.
    """
    return _Commit(connection, request).apply()


class _Commit:
    def __init__(self, connection: Connection, request: CommitRequest) -> None:
        _refuse_a_path_twice(request)
        self._connection = connection
        self._request = request
        self._sql = queries("commit")

    def apply(self) -> Committed:
        request = self._request
        session = self._lock()
        if request.job_id == session.applied_job_id and request.seq <= session.applied_seq:
            return Committed(_replayed(session), session.active_index_id, written=0)
        if request.fence < session.fence or request.seq <= session.applied_seq:
            raise StaleFence
        parameters = {
            "session_id": request.session_id,
            "index_id": session.active_index_id,
            "repo_id": session.repo_id,
            "job_id": request.job_id,
            "generation": session.generation + 1,
        }
        blob_ids = self._find_blobs(session)
        reach("in_commit_before_writes")
        self._remove(parameters)
        reach("in_commit_after_removes")
        written = self._write(parameters, blob_ids)
        reach("in_commit_after_writes")
        self._change_rights(parameters)
        chunks = self._count(parameters)
        self._finish(parameters, chunks)
        reach("in_commit_before_its_end")
        result = CommitResult(
            generation=session.generation + 1, chunks=chunks, counters=request.counters, replayed=False
        )
        return Committed(result, session.active_index_id, written)

    def _lock(self) -> Any:
        with self._connection.cursor(row_factory=namedtuple_row) as cursor:
            session = cursor.execute(self._sql["lock_session"], {"session_id": self._request.session_id}).fetchone()
        if session is None:
            raise SessionNotFound
        return session

    def _find_blobs(self, session: Any) -> dict[str, int]:
        upserts = self._request.upserts
        for entry in upserts:
            self._check_key(session, entry)
        if not upserts:
            return {}
        rows = self._connection.execute(
            self._sql["find_blobs"],
            {
                "paths": [entry.path for entry in upserts],
                "blob_shas": [entry.blob_sha for entry in upserts],
                "tenant": session.tenant,
                "repo_id": session.repo_id,
                "pipeline_version": session.pipeline_version,
                "embedding_model": session.embedding_model,
            },
        ).fetchall()
        found: dict[str, int] = dict(rows)
        if missing := [entry.path for entry in upserts if entry.path not in found]:
            raise TemporaryError(
                f"{missing[0]} and {len(missing) - 1} more are not prepared; they must be prepared again."
            )
        wrong = self._connection.execute(
            self._sql["wrong_dimension"], {"blob_ids": list(found.values()), "dimension": session.dimension}
        ).fetchone()
        if wrong is not None:
            raise EmbeddingModelMismatch(
                f"The vectors of {wrong[0]} have {wrong[1]} dimensions, those of the session {session.dimension}; "
                f"index the project into a new session: `strata index PATH --session NEW_NAME`."
            )
        return found

    def _check_key(self, session: Any, entry: FileEntry) -> None:
        key = self._request.keys[entry.path]
        made_with = (key.embedding_model, key.pipeline_version)
        if made_with != (session.embedding_model, session.pipeline_version):
            raise EmbeddingModelMismatch(
                f"The session was built with {session.embedding_model} (pipeline {session.pipeline_version}), this "
                f"deployment uses {key.embedding_model} (pipeline {key.pipeline_version}); index the project into a "
                f"new session: `strata index PATH --session NEW_NAME`."
            )
        expected = BlobKey(
            tenant=session.tenant,
            repo_id=session.repo_id,
            path=entry.path,
            blob_sha=entry.blob_sha,
            pipeline_version=session.pipeline_version,
            embedding_model=session.embedding_model,
        )
        if key != expected:
            raise ValueError(f"the key of {entry.path} does not belong to this file of this session")

    def _remove(self, parameters: dict[str, Any]) -> None:
        paths = [*self._request.deletes, *(entry.path for entry in self._request.upserts)]
        if paths:
            for name in ("remove_terms", "remove_vectors", "remove_chunks", "remove_links", "remove_files"):
                self._connection.execute(self._sql[name], {**parameters, "paths": paths})

    def _write(self, parameters: dict[str, Any], blob_ids: dict[str, int]) -> int:
        """The number of chunks written."""
        if not blob_ids:
            return 0
        written = {
            **parameters,
            "files": _as_json(self._request.upserts, blob_ids),
            "paths": list(blob_ids),
            "blob_ids": list(blob_ids.values()),
        }
        self._connection.execute(self._sql["count_layers"], written)
        chunks = self._connection.execute(self._sql["write_chunks"], written).rowcount
        for name in ("write_vectors", "write_terms", "count_terms", "write_links", "write_files"):
            self._connection.execute(self._sql[name], written)
        return chunks

    def _change_rights(self, parameters: dict[str, Any]) -> None:
        if self._request.rights:
            changed = {**parameters, "files": _as_json(self._request.rights)}
            for name in (
                "change_chunk_rights",
                "change_vector_rights",
                "change_term_rights",
                "change_link_rights",
                "change_file_rights",
            ):
                self._connection.execute(self._sql[name], changed)

    def _count(self, parameters: dict[str, Any]) -> int:
        """The chunks of the index as it now is."""
        row = self._connection.execute(self._sql["count_chunks"], parameters).fetchone()
        return int(row[0]) if row else 0

    def _finish(self, parameters: dict[str, Any], chunks: int) -> None:
        finished = {
            **parameters,
            "fence": self._request.fence,
            "seq": self._request.seq,
            "counters": Jsonb(dataclasses.asdict(self._request.counters)),
            "chunks": chunks,
        }
        if self._connection.execute(self._sql["finish_commit"], finished).fetchone() is None:
            raise StaleFence


def _refuse_a_path_twice(request: CommitRequest) -> None:
    paths = [*request.deletes, *(entry.path for entry in (*request.upserts, *request.rights))]
    if len(set(paths)) != len(paths):
        raise ValueError("a commit names a path once: to write, to change rights or to delete")


def _replayed(session: Any) -> CommitResult:
    return CommitResult(
        generation=session.generation,
        chunks=session.applied_chunks,
        counters=Counters(**session.applied_counters),
        replayed=True,
    )


def _as_json(entries: Sequence[FileEntry], blob_ids: dict[str, int] | None = None) -> str:
    return json.dumps(
        [
            {
                "path": entry.path,
                "blob_id": (blob_ids or {}).get(entry.path),
                "blob_sha": entry.blob_sha,
                "acl": None if entry.acl is None else list(entry.acl),
                "last_modified": entry.last_modified and entry.last_modified.isoformat(),
                "shown_last_modified": entry.last_modified and entry.last_modified.astimezone(UTC).isoformat(),
                "size_bytes": entry.size_bytes,
            }
            for entry in entries
        ]
    )
