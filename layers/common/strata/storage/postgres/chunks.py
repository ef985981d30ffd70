"""One job's commit: the rows of an index, changed in one transaction."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from strata.errors import EmbeddingModelMismatch, SessionNotFound, StaleFence, TemporaryError
from strata.jobs.fault_points import reach
from strata.model.corpus import EMBEDDED_LAYERS, BlobKey, FileEntry
from strata.model.jobs import Counters
from strata.ports.sessions import CommitRequest, CommitResult, FlipRequest
from strata.storage.postgres import postings, statistics
from strata.storage.postgres.connection import Connection
from strata.storage.postgres.queries import queries

FILES_OF_A_SMALL_COMMIT = 20
POSTED_BYTES = 1024 * 1024
"""Of source, whose postings are packed at once: up to 25 MB of memory."""
_WEIGHTS_AT_ONCE = 1_000


class Committed(NamedTuple):
    """`written`: how many chunks this commit put into the index."""

    result: CommitResult
    index_id: int
    written: int


def commit(connection: Connection, request: CommitRequest) -> Committed:
    """Apply the request inside the transaction that the caller has opened; see `strata.ports.sessions.SessionStore`.

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
        session = lock_session(self._connection, request.session_id)
        if (result := replayed(session, request)) is not None:
            return Committed(result, session.active_index_id, written=0)
        parameters = {
            "session_id": request.session_id,
            "index_id": session.active_index_id,
            "repo_id": session.repo_id,
            "job_id": request.job_id,
            "generation": session.generation + 1,
        }
        if len(request.upserts) + len(request.deletes) + len(request.rights) <= FILES_OF_A_SMALL_COMMIT:
            self._connection.execute(self._sql["by_lookups"])
        blob_ids = find_blobs(self._connection, session, request.upserts, request.keys)
        reach("in_commit_before_writes")
        self._remove(parameters)
        reach("in_commit_after_removes")
        written = self._write(parameters, blob_ids) if blob_ids else 0
        reach("in_commit_after_writes")
        change_rights(self._connection, parameters, request.rights)
        keep_left_rights(self._connection, request)
        chunks = count_chunks(self._connection, session.active_index_id)
        finish(self._connection, request, session, chunks, request.counters)
        reach("in_commit_before_its_end")
        result = CommitResult(
            generation=session.generation + 1, chunks=chunks, counters=request.counters, replayed=False
        )
        return Committed(result, session.active_index_id, written)

    def _remove(self, parameters: dict[str, Any]) -> None:
        written = [entry.path for entry in self._request.upserts]
        paths = [*self._request.deletes, *written]
        if paths:
            removed = {**parameters, "paths": paths, "written": written}
            for name in ("remove_terms", "remove_vectors", "remove_chunks", "remove_links", "remove_files"):
                self._connection.execute(self._sql[name], removed)

    def _write(self, parameters: dict[str, Any], blob_ids: Mapping[str, int]) -> int:
        new = {"index_id": parameters["index_id"], "blob_ids": list(blob_ids.values())}
        self._connection.execute(self._sql["count_layers"], new)
        written = write(self._connection, parameters, self._request.upserts, blob_ids)
        self._count_terms({**parameters, "paths": list(blob_ids)})
        return written

    def _count_terms(self, new: Mapping[str, Any]) -> None:
        with self._connection.cursor(binary=True) as cursor:
            rows = cursor.stream(self._sql["new_weights"], new, binary=True, size=_WEIGHTS_AT_ONCE)
            counted = {
                layer: statistics.counted(weights for _, weights in found)
                for layer, found in groupby(rows, key=itemgetter(0))
            }
        columns = {
            "layers": [layer for layer, found in counted.items() for _ in found.term_ids],
            "term_ids": [term_id for found in counted.values() for term_id in found.term_ids.tolist()],
            "frequencies": [count for found in counted.values() for count in found.frequencies.tolist()],
            "greatest": [weight for found in counted.values() for weight in found.greatest.tolist()],
        }
        self._connection.execute(self._sql["count_terms"], {"index_id": new["index_id"], **columns})


def change_rights(connection: Connection, parameters: Mapping[str, Any], entries: Sequence[FileEntry]) -> None:
    """Give files of the index these lists and dates."""
    if not entries:
        return
    changed = {**parameters, "files": _as_json(entries), "paths": [entry.path for entry in entries]}
    for name in (
        "change_chunk_rights",
        "change_vector_rights",
        "change_term_rights",
        "change_link_rights",
        "change_file_rights",
    ):
        connection.execute(queries("commit")[name], changed)


def keep_left_rights(connection: Connection, request: CommitRequest | FlipRequest) -> None:
    """What files had that are not in the index now."""
    if request.left_rights:
        files = json.dumps([{"path": path, "acl": acl} for path, acl in request.left_rights.items()])
        parameters = {"session_id": request.session_id, "files": files}
        connection.execute(queries("commit")["keep_left_rights"], parameters)


def _refuse_a_path_twice(request: CommitRequest) -> None:
    paths = [*request.deletes, *(entry.path for entry in (*request.upserts, *request.rights))]
    if len(set(paths)) != len(paths):
        raise ValueError("a commit names a path once: to write, to change rights or to delete")


class Ordered(Protocol):
    """What every change of a session says about its place in the order."""

    @property
    def session_id(self) -> str: ...
    @property
    def job_id(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def fence(self) -> int: ...


def lock_session(connection: Connection, session_id: str) -> Any:
    """The session with its active index, locked until the transaction's end. Raises `SessionNotFound`."""
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        session = cursor.execute(queries("commit")["lock_session"], {"session_id": session_id}).fetchone()
    if session is None:
        raise SessionNotFound
    return session


def replayed(session: Any, request: Ordered) -> CommitResult | None:
    """The result of this very job, if it has been applied before; None when it is its turn. Else `StaleFence`."""
    if request.job_id == session.applied_job_id and request.seq <= session.applied_seq:
        return last_result(session)
    if request.fence < session.fence or request.seq <= session.applied_seq:
        raise StaleFence
    return None


def last_result(session: Any) -> CommitResult:
    """The result of the job that was applied last, as a replay of it is told."""
    return CommitResult(
        generation=session.generation,
        chunks=session.applied_chunks,
        counters=Counters(**session.applied_counters),
        replayed=True,
    )


def find_blobs(
    connection: Connection, built: Any, entries: Sequence[FileEntry], keys: Mapping[str, BlobKey]
) -> dict[str, int]:
    """Where each file lies in the cache. `built` says whose files these are and what the index is built with.

    Raises `EmbeddingModelMismatch`, and `TemporaryError` for a file that is not prepared.
    """
    for entry in entries:
        _check_key(built, entry, keys[entry.path])
    if not entries:
        return {}
    rows = connection.execute(
        queries("commit")["find_blobs"],
        {
            "paths": [entry.path for entry in entries],
            "blob_shas": [entry.blob_sha for entry in entries],
            "tenant": built.tenant,
            "repo_id": built.repo_id,
            "pipeline_version": built.pipeline_version,
            "embedding_model": built.embedding_model,
        },
    ).fetchall()
    found: dict[str, int] = dict(rows)
    if missing := [entry.path for entry in entries if entry.path not in found]:
        raise TemporaryError(f"{missing[0]} and {len(missing) - 1} more are not prepared; they must be prepared again.")
    wrong = connection.execute(
        queries("commit")["wrong_dimension"], {"blob_ids": list(found.values()), "dimension": built.dimension}
    ).fetchone()
    if wrong is not None:
        raise EmbeddingModelMismatch(
            f"The vectors of {wrong[0]} have {wrong[1]} dimensions, those of the index {built.dimension}; "
            "index the project anew: `strata index PATH --session NAME --reindex`."
        )
    return found


def _check_key(built: Any, entry: FileEntry, key: BlobKey) -> None:
    if (key.embedding_model, key.pipeline_version) != (built.embedding_model, built.pipeline_version):
        raise EmbeddingModelMismatch(
            f"The index was built with {built.embedding_model} (pipeline {built.pipeline_version}), this deployment "
            f"uses {key.embedding_model} (pipeline {key.pipeline_version}); index the project anew: "
            "`strata index PATH --session NAME --reindex`."
        )
    expected = BlobKey(
        tenant=built.tenant,
        repo_id=built.repo_id,
        path=entry.path,
        blob_sha=entry.blob_sha,
        pipeline_version=built.pipeline_version,
        embedding_model=built.embedding_model,
    )
    if key != expected:
        raise ValueError(f"the key of {entry.path} does not belong to this file of this session")


def write(
    connection: Connection, parameters: Mapping[str, Any], entries: Sequence[FileEntry], blob_ids: Mapping[str, int]
) -> int:
    """Copy prepared files that the index does not hold into it; the number of chunks written.

    Their layers have an average length; nothing is counted.
    """
    written = {
        **parameters,
        "files": _as_json(entries, blob_ids, parameters["repo_id"]),
        "paths": list(blob_ids),
        "embedded_layers": sorted(EMBEDDED_LAYERS),
    }
    sql = queries("commit")
    chunks = connection.execute(sql["write_chunks"], written).rowcount
    for name in ("write_vectors", "write_links", "write_files"):
        connection.execute(sql[name], written)
    for some in _slices(entries):
        _write_terms(connection, {**written, "paths": [entry.path for entry in some]})
    return chunks


def _slices(entries: Sequence[FileEntry]) -> Iterator[Sequence[FileEntry]]:
    """Files with at most `POSTED_BYTES` together; a larger one by itself."""
    start, size = 0, 0
    for place, entry in enumerate(entries):
        if place > start and size + entry.size_bytes > POSTED_BYTES:
            yield entries[start:place]
            start, size = place, 0
        size += entry.size_bytes
    yield entries[start:]


def _write_terms(connection: Connection, parameters: Mapping[str, Any]) -> None:
    sql = queries("commit")
    with connection.cursor(binary=True, row_factory=namedtuple_row) as cursor:
        found = cursor.execute(sql["chunk_terms"], parameters).fetchall()
    with connection.cursor().copy(sql["copy_terms"]) as copy:
        for part in postings.rows(parameters["index_id"], found):
            copy.write(part)


def count_chunks(connection: Connection, index_id: int) -> int:
    """The chunks of the index as it now is."""
    row = connection.execute(queries("commit")["count_chunks"], {"index_id": index_id}).fetchone()
    return int(row[0]) if row else 0


def finish(connection: Connection, request: Ordered, session: Any, chunks: int, counters: Counters) -> None:
    """The session's new generation, fence and seq. Raises `StaleFence`."""
    finished = {
        "session_id": request.session_id,
        "job_id": request.job_id,
        "generation": session.generation + 1,
        "fence": request.fence,
        "seq": request.seq,
        "counters": Jsonb(dataclasses.asdict(counters)),
        "chunks": chunks,
    }
    if connection.execute(queries("commit")["finish_commit"], finished).fetchone() is None:
        raise StaleFence


def _as_json(
    entries: Sequence[FileEntry], blob_ids: Mapping[str, int] | None = None, repo_id: str | None = None
) -> str:
    files = []
    for entry in entries:
        shown_last_modified = entry.last_modified.astimezone(UTC).isoformat() if entry.last_modified else None
        added_metadata = {"blob_sha": entry.blob_sha, "repo_id": repo_id}
        if shown_last_modified is not None:
            added_metadata["last_modified"] = shown_last_modified
        files.append(
            {
                "path": entry.path,
                "blob_id": (blob_ids or {}).get(entry.path),
                "blob_sha": entry.blob_sha,
                "acl": None if entry.acl is None else list(entry.acl),
                "last_modified": entry.last_modified and entry.last_modified.isoformat(),
                "shown_last_modified": shown_last_modified,
                "added_metadata": added_metadata,
                "size_bytes": entry.size_bytes,
            }
        )
    return json.dumps(files)
