"""An index that is filled beside the live one, goes live at once, and can be gone back from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg.rows import namedtuple_row

from strata.errors import NoEarlierIndex, StaleFence, TemporaryError
from strata.jobs.fault_points import reach
from strata.model.corpus import BlobKey, FileEntry, Layer
from strata.model.jobs import Counters
from strata.ports.clock import Advanced
from strata.ports.sessions import CommitResult, FlipRequest, NewIndex, RollBackRequest
from strata.storage.postgres import statistics
from strata.storage.postgres.chunks import (
    change_rights,
    count_chunks,
    find_blobs,
    finish,
    keep_left_rights,
    last_result,
    lock_session,
    replayed,
    write,
)
from strata.storage.postgres.connection import Connection, Database
from strata.storage.postgres.queries import queries

COLLECTED_ROWS = 5_000
"""Rows that one transaction of a collection deletes: locks and log stay small."""
_ROWS_AT_ONCE = 1_000
_COLLECTIONS = (
    "collect_terms",
    "collect_vectors",
    "collect_chunks",
    "collect_links",
    "collect_statistics",
    "collect_term_blocks",
)


def begin(connection: Connection, new: NewIndex) -> int:
    sql = queries("new_index")
    session = lock_session(connection, new.session_id)
    if new.fence < session.fence or new.seq <= session.applied_seq:
        raise StaleFence
    parameters = {
        "session_id": new.session_id,
        "job_id": new.job_id,
        "fence": new.fence,
        "tenant": session.tenant,
        "repo_id": session.repo_id,
        "embedding_model": new.embedding_model,
        "dimension": new.dimension,
        "pipeline_version": new.pipeline_version,
    }
    begun = connection.execute(sql["begun_index"], parameters).fetchone()
    if begun is not None:
        return int(begun[0])
    row = connection.execute(sql["begin_index"], parameters).fetchone()
    if row is None:
        raise StaleFence
    reach("in_begin")
    pinned = {
        **parameters,
        "index_id": row[0],
        "paths": [key.path for key in new.keys],
        "blob_shas": [key.blob_sha for key in new.keys],
    }
    connection.execute(sql["pin_lengths"], pinned)
    return int(row[0])


def fill(
    connection: Connection,
    index_id: int,
    *,
    job_id: str,
    fence: int,
    entries: Sequence[FileEntry],
    keys: Mapping[str, BlobKey],
) -> int:
    sql = queries("new_index")
    built = _shared(connection, index_id, job_id, fence)
    paths = [entry.path for entry in entries]
    rows = connection.execute(sql["filled_paths"], {"index_id": index_id, "paths": paths}).fetchall()
    filled = {path for (path,) in rows}
    new = [entry for entry in entries if entry.path not in filled]
    if not new:
        return 0
    parameters = {
        "session_id": built.session_id,
        "index_id": index_id,
        "repo_id": built.repo_id,
        "job_id": job_id,
        "generation": built.generation + 1,
    }
    blob_ids = find_blobs(connection, built, new, keys)
    connection.execute(sql["gather_postings"])
    connection.execute(sql["forget_counts"], parameters)
    connection.execute(sql["pin_new_layers"], {"index_id": index_id, "blob_ids": list(blob_ids.values())})
    written = write(connection, parameters, new, blob_ids)
    reach("in_fill_before_its_end")
    return written


def count(connection: Connection, index_id: int, *, job_id: str, fence: int, layer: Layer) -> None:
    sql = queries("new_index")
    _shared(connection, index_id, job_id, fence)
    counted = {"index_id": index_id, "layer": layer.value}
    if connection.execute(sql["count_layer"], counted).rowcount:
        connection.execute(sql["forget_layer_terms"], counted)
        with connection.cursor(binary=True) as cursor:
            weights = cursor.stream(sql["layer_weights"], counted, binary=True, size=_ROWS_AT_ONCE)
            found = statistics.counted(row for (row,) in weights)
        with connection.cursor().copy(sql["copy_layer_terms"]) as copy:
            for part in statistics.rows(index_id, layer.value, found):
                copy.write(part)
    reach("in_count_before_its_end")


def _shared(connection: Connection, index_id: int, job_id: str, fence: int) -> Any:
    """The index, for this transaction of its holder's among others of the same one; else `StaleFence`."""
    sql = queries("new_index")
    holder = {"index_id": index_id, "job_id": job_id, "fence": fence}
    connection.execute(sql["take_over_index"], holder)
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        built = cursor.execute(sql["share_index"], holder).fetchone()
    if built is None:
        raise StaleFence
    return built


def flip(connection: Connection, request: FlipRequest) -> CommitResult:
    sql = queries("new_index")
    session = lock_session(connection, request.session_id)
    if (result := replayed(session, request)) is not None:
        return result
    index = {"index_id": request.index_id, "session_id": request.session_id}
    held = connection.execute(
        sql["hold_index"], {"index_id": request.index_id, "job_id": request.job_id, "fence": request.fence}
    ).fetchone()
    if held is None or held[0] != request.session_id:
        raise StaleFence
    filled = connection.execute(sql["filled_files"], index).fetchone()
    if filled is None or filled[0] != request.files:
        raise TemporaryError(
            f"The new index holds {filled[0] if filled else 0} files instead of {request.files}; it must be built anew."
        )
    if connection.execute(sql["uncounted_layer"], index).fetchone() is not None:
        raise TemporaryError("The new index is not counted to its end; it must be filled again.")
    connection.execute(sql["flip"], index)
    connection.execute(sql["close_index"], index)
    connection.execute(sql["forget_returned"], index)
    keep_left_rights(connection, request)
    chunks = count_chunks(connection, request.index_id)
    finish(connection, request, session, chunks, request.counters)
    reach("in_flip_before_its_end")
    return CommitResult(generation=session.generation + 1, chunks=chunks, counters=request.counters, replayed=False)


def roll_back(connection: Connection, request: RollBackRequest) -> CommitResult:
    session = lock_session(connection, request.session_id)
    if (result := replayed(session, request)) is not None:
        return result
    swapped = connection.execute(queries("new_index")["swap_indexes"], {"session_id": request.session_id}).fetchone()
    if swapped is None:
        raise NoEarlierIndex
    _carry_rights_back(connection, request, session, index_id=swapped[0])
    chunks = count_chunks(connection, swapped[0])
    finish(connection, request, session, chunks, Counters())
    reach("in_roll_back_before_its_end")
    return CommitResult(generation=session.generation + 1, chunks=chunks, counters=Counters(), replayed=False)


def _carry_rights_back(connection: Connection, request: RollBackRequest, session: Any, *, index_id: int) -> None:
    sql = queries("new_index")
    parameters = {
        "session_id": request.session_id,
        "job_id": request.job_id,
        "generation": session.generation + 1,
        "index_id": index_id,
        "left_index_id": session.active_index_id,
    }
    rows = connection.execute(sql["narrowed_files"], parameters).fetchall()
    narrowed = [
        FileEntry(path=path, blob_sha=blob_sha, acl=tuple(acl), last_modified=last_modified, size_bytes=size_bytes)
        for path, blob_sha, acl, last_modified, size_bytes in rows
    ]
    change_rights(connection, parameters, narrowed)
    connection.execute(sql["keep_rights_of_left_index"], parameters)
    connection.execute(sql["forget_returned"], parameters)


def applied(connection: Connection, session_id: str, *, job_id: str, seq: int) -> CommitResult | None:
    session = lock_session(connection, session_id)
    if job_id != session.applied_job_id or seq > session.applied_seq:
        return None
    return last_result(session)


def collect(database: Database, session_id: str, *, but_of_job: str | None, advanced: Advanced) -> int:
    """In many small transactions; one that is broken off is taken up by the next call."""
    sql = queries("new_index")
    parameters = {"session_id": session_id, "job_id": but_of_job}
    useless = database.transact(lambda c: c.execute(sql["useless_indexes"], parameters).fetchall())
    for (index_id,) in useless:
        for name in _COLLECTIONS:
            while _deleted(database, sql[name], index_id):
                advanced()
        _deleted(database, sql["collect_files"], index_id)
        _deleted(database, sql["collect_index"], index_id)
    return len(useless)


def _deleted(database: Database, statement: bytes, index_id: int) -> int:
    parameters = {"index_id": index_id, "rows": COLLECTED_ROWS}
    reach("in_collect")
    return database.transact(lambda connection: connection.execute(statement, parameters).rowcount)
