"""Sessions and their indexed files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from psycopg import errors

from strata.errors import InvalidRequest, SessionNameTaken, SessionNotFound, StaleFence, StrataError
from strata.jobs.fault_points import reach
from strata.model.access import Identity, Principal, Session
from strata.model.corpus import EMBEDDED_LAYERS, BlobKey, FileEntry, Layer
from strata.ports.clock import Advanced, unwatched
from strata.ports.sessions import CommitRequest, CommitResult, FlipRequest, NewIndex, RollBackRequest
from strata.storage.postgres import chunks, new_index, term_blocks
from strata.storage.postgres.connection import Connection, Database
from strata.storage.postgres.queries import queries

PURGE_ROWS = 5_000
"""How many rows of each table one step of a purge removes: about a second's work."""
PURGE_BLOBS = 500
LARGE_COMMIT_CHUNKS = 1_000
"""From here on a commit is followed by `tidy`."""
LEAST_CHUNKS_THAT_DRIFT = 1_000
"""Of a layer: a few chunks have any average, and weights that are a little off cost nothing there."""
NEAREST_ROWS = 50_000
"""From here on vectors are kept in cells of neighbours; smaller ones are scanned, exactly."""

_log = logging.getLogger(__name__)


class PostgresSessionStore:
    """Keeps the promise of `strata.ports.sessions.SessionStore`."""

    def __init__(self, database: Database, *, nearest_from_rows: int = NEAREST_ROWS) -> None:
        self._database = database
        self._nearest_from_rows = nearest_from_rows
        self._sql = queries("sessions")

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
        """Raises `InvalidRequest` too, for a name that is none. The project is the session's repository."""
        parameters = {
            "session_id": session_id,
            "tenant": identity.tenant,
            "project_id": project_id,
            "repo_id": project_id,
            "owner": identity.user,
            "readers": sorted(set(readers)),
            "embedding_model": embedding_model,
            "dimension": dimension,
            "pipeline_version": pipeline_version,
        }

        def work(connection: Connection) -> tuple[Session, bool]:
            new = connection.execute(self._sql["add_session"], parameters).fetchone() is not None
            if new:
                connection.execute(self._sql["add_index"], parameters)
            row = connection.execute(self._sql["session"], parameters).fetchone()
            if row is None:
                raise SessionNameTaken("A session of this name is being deleted; try again in a moment.")
            return _session(row), new

        try:
            session, new = self._database.transact(work)
        except errors.CheckViolation as error:
            raise InvalidRequest(
                "A session's name has 1 to 100 letters, digits, `.`, `_` and `-` and begins with a letter or a digit; "
                "its project's name has 1 to 200 bytes, its tenant's 1 to 100, its vectors 1 to 4000 dimensions."
            ) from error
        if not session.writable_by(identity):
            raise SessionNameTaken
        return session, new

    def get(self, session_id: str) -> Session | None:
        row = self._database.transact(
            lambda connection: connection.execute(self._sql["session"], {"session_id": session_id}).fetchone()
        )
        return None if row is None else _session(row)

    def claim(self, session_id: str, fence: int) -> None:
        parameters = {"session_id": session_id, "fence": fence}

        def work(connection: Connection) -> None:
            if connection.execute(self._sql["claim"], parameters).fetchone() is None:
                found = connection.execute(self._sql["session"], parameters).fetchone()
                raise SessionNotFound if found is None else StaleFence

        self._database.transact(work)

    def set_readers(self, session_id: str, readers: Sequence[Principal]) -> Session:
        parameters = {"session_id": session_id, "readers": sorted(set(readers))}

        def work(connection: Connection) -> Session:
            connection.execute(self._sql["set_readers"], parameters)
            row = connection.execute(self._sql["session"], parameters).fetchone()
            if row is None:
                raise SessionNotFound
            return _session(row)

        return self._database.transact(work)

    def delete(self, session_id: str, fence: int) -> bool:
        parameters = {"session_id": session_id, "fence": fence}

        def work(connection: Connection) -> bool:
            if connection.execute(self._sql["delete_session"], parameters).rowcount == 0:
                connection.execute(self._sql["raise_deleted_fence"], parameters)
            return connection.execute(self._sql["session"], parameters).fetchone() is None

        return self._database.transact(work)

    def purge(self, session_id: str) -> bool:
        def work(connection: Connection) -> bool:
            row = connection.execute(self._sql["deleted_session"], {"session_id": session_id}).fetchone()
            if row is None:
                return False
            tenant, repo_id, index_ids = row
            rows = {"index_ids": index_ids, "limit": PURGE_ROWS}
            blobs = {"tenant": tenant, "repo_id": repo_id, "limit": PURGE_BLOBS}
            removed = [
                connection.execute(self._sql[name], rows).rowcount
                for name in (
                    "purge_terms",
                    "purge_vectors",
                    "purge_chunks",
                    "purge_links",
                    "purge_statistics",
                    "purge_term_blocks",
                )
            ]
            return any((*removed, connection.execute(self._sql["purge_cache"], blobs).rowcount))

        return self._database.transact(work)

    def end_purge(self, session_id: str) -> None:
        self._database.transact(
            lambda connection: connection.execute(self._sql["end_purge"], {"session_id": session_id})
        )

    def list_readable(self, identity: Identity) -> list[Session]:
        parameters = {"tenant": identity.tenant, "principals": list(identity.principals)}
        rows = self._database.transact(
            lambda connection: connection.execute(self._sql["readable_sessions"], parameters).fetchall()
        )
        return [_session(row) for row in rows]

    def indexed_files(self, session_id: str, paths: Collection[str] | None = None) -> dict[str, FileEntry]:
        statement = self._sql["indexed_files" if paths is None else "indexed_files_at"]
        parameters = {"session_id": session_id, "paths": None if paths is None else list(paths)}
        rows = self._database.transact(lambda connection: connection.execute(statement, parameters).fetchall())
        return {
            path: FileEntry(
                path=path,
                blob_sha=blob_sha,
                acl=None if acl is None else tuple(acl),
                last_modified=last_modified,
                size_bytes=size_bytes,
            )
            for path, blob_sha, acl, last_modified, size_bytes in rows
        }

    def left_rights(self, session_id: str, paths: Collection[str]) -> dict[str, tuple[str, ...]]:
        parameters = {"session_id": session_id, "paths": list(paths)}
        rows = self._database.transact(lambda c: c.execute(self._sql["left_rights"], parameters).fetchall())
        return {path: tuple(acl) for path, acl in rows}

    def length_drift(self, session_id: str) -> float:
        parameters = {"session_id": session_id, "least_chunks": LEAST_CHUNKS_THAT_DRIFT}
        row = self._database.transact(lambda c: c.execute(self._sql["length_drift"], parameters).fetchone())
        return float(row[0]) if row else 0.0

    def commit(self, request: CommitRequest) -> CommitResult:
        reach("before_commit")
        committed = self._database.transact(lambda connection: chunks.commit(connection, request))
        reach("after_commit")
        self._make_fast(committed)
        return committed.result

    def _make_fast(self, committed: chunks.Committed) -> None:
        """Also after a replay: whoever committed what is replayed may have ended before this."""
        held = committed.result.chunks
        written = held if committed.result.replayed else committed.written
        if written >= LARGE_COMMIT_CHUNKS:
            self.tidy(committed.index_id)
        if written and held >= self._nearest_from_rows:
            self.build_cells(committed.index_id)
        if written and held > term_blocks.LEAST_ROWS:
            self.build_term_blocks(committed.index_id)

    def begin_index(self, new: NewIndex) -> int:
        reach("before_begin")
        index_id = self._database.transact(lambda connection: new_index.begin(connection, new))
        reach("after_begin")
        return index_id

    def fill(
        self, index_id: int, *, job_id: str, fence: int, entries: Sequence[FileEntry], keys: Mapping[str, BlobKey]
    ) -> int:
        reach("before_fill")
        written = self._database.transact(
            lambda c: new_index.fill(c, index_id, job_id=job_id, fence=fence, entries=entries, keys=keys)
        )
        reach("after_fill")
        return written

    def count(self, index_id: int, *, job_id: str, fence: int, layer: Layer) -> None:
        self._database.transact(lambda c: new_index.count(c, index_id, job_id=job_id, fence=fence, layer=layer))
        reach("after_count")

    def tidy(self, index_id: int) -> None:
        statement = queries("commit")["tidy"]
        self._database.transact(lambda connection: connection.execute(statement, {"index_id": index_id}))

    def build_term_blocks(self, index_id: int) -> None:
        self._attempt("blocks of words", index_id, lambda connection: term_blocks.build(connection, index_id))

    def build_cells(self, index_id: int) -> None:
        layers = sorted(EMBEDDED_LAYERS)
        parameters = {"index_id": index_id, "least_rows": self._nearest_from_rows, "embedded_layers": layers}
        self._attempt("cells", index_id, lambda c: c.execute(queries("commit")["build_cells"], parameters))

    def _attempt(self, what: str, index_id: int, build: Callable[[Connection], object]) -> None:
        """The commit stands whatever comes of it: without them, searches read more rows."""
        try:
            self._database.transact(build)
        except StrataError as error:
            message = "The %s of index %d could not be built; the next commit tries again: %s"
            _log.warning(message, what, index_id, error.__cause__ or error)

    def in_new_process(self) -> PostgresSessionStore:
        return PostgresSessionStore(self._database.in_new_process(), nearest_from_rows=self._nearest_from_rows)

    def flip(self, request: FlipRequest) -> CommitResult:
        reach("before_flip")
        result = self._database.transact(lambda connection: new_index.flip(connection, request))
        reach("after_flip")
        return result

    def roll_back(self, request: RollBackRequest) -> CommitResult:
        reach("before_roll_back")
        result = self._database.transact(lambda connection: new_index.roll_back(connection, request))
        reach("after_roll_back")
        return result

    def applied(self, session_id: str, *, job_id: str, seq: int) -> CommitResult | None:
        return self._database.transact(lambda c: new_index.applied(c, session_id, job_id=job_id, seq=seq))

    def collect_indexes(self, session_id: str, *, but_of_job: str | None = None, advanced: Advanced = unwatched) -> int:
        return new_index.collect(self._database, session_id, but_of_job=but_of_job, advanced=advanced)


def _session(row: tuple[Any, ...]) -> Session:
    (
        session_id,
        tenant,
        project_id,
        repo_id,
        owner,
        readers,
        generation,
        applied_seq,
        fence,
        model,
        dimension,
        version,
    ) = row
    return Session(
        session_id=session_id,
        tenant=tenant,
        project_id=project_id,
        repo_id=repo_id,
        owner=owner,
        readers=tuple(readers),
        generation=generation,
        applied_seq=applied_seq,
        fence=fence,
        embedding_model=model,
        dimension=dimension,
        pipeline_version=version,
    )
