"""Reads chunks for one caller, as `strata_query`: each call is one statement in one round trip.

The first call for a session asks for its index before; see `strata.retrieval.statements`.
"""

from __future__ import annotations

import json
import time
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from strata.errors import EmbeddingModelMismatch, SessionNotFound, StoreUnavailable
from strata.indexing.reading import read_text
from strata.model.access import Identity
from strata.model.asking import Candidate, Explanation, IndexedText, Retrieved
from strata.model.corpus import Layer, Span
from strata.ports.search import SearchRequest
from strata.retrieval.explain import explanation
from strata.retrieval.filters import LAYER_RANKS
from strata.retrieval.statements.files import (
    file_page_statement,
    files_statement,
    index_statement,
    session_statement,
    sources_statement,
)
from strata.retrieval.statements.rows import (
    CANDIDATE_COLUMNS,
    CANDIDATE_TYPES,
    NO_INDEX,
    SESSION_COLUMNS,
    SESSION_TYPES,
    Statement,
)
from strata.retrieval.statements.search import search_statement
from strata.storage.postgres.connection import Connection, Database

# Local to the transaction, and sent with the statement: nothing stays on the connection (a proxy would pin it).
# Compiling (jit) costs more than such a statement; the time limit ends a search whose caller has long gone.
_SETTINGS = """
    SELECT set_config('strata.tenant', %(tenant)s, true), set_config('strata.principals', %(principals)s, true),
           set_config('strata.index', %(index)s, true),
           set_config('transaction_read_only', 'on', true), set_config('jit', 'off', true),
           set_config('statement_timeout', %(statement_timeout)s, true)
"""

_PREPARED = (
    sql.SQL("SELECT * FROM strata_prepared(%(name)s, %(text)s, %(arguments)s::text[]) AS found ({columns})")
    .format(
        columns=sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))
            for name, kind in {**SESSION_TYPES, **CANDIDATE_TYPES}.items()
        )
    )
    .as_bytes(None)
)

_PATIENCE_S = 2.0
"""A new index may go live after we have learned the number of the old one: then the search runs on the new one, unless
that is replaced as well. So long a search runs after an index that is replaced again and again."""
_KNOWN_SESSIONS = 10_000


_row: Any = namedtuple("_row", " ".join([*SESSION_COLUMNS, *CANDIDATE_COLUMNS]))  # type: ignore[misc]
_LAYERS = {layer.value: layer for layer in Layer}


class PostgresSearch:
    """A `ChunkSearch` on pgvector, GIN and row-level security."""

    def __init__(self, database: Database, *, statement_timeout_s: float = 20.0) -> None:
        self._database = database
        self._statement_timeout_ms = round(statement_timeout_s * 1000)
        self._indexes: dict[str, int] = {}
        self._without_cells: set[str] = set()

    def search(self, request: SearchRequest) -> Retrieved:
        question = request.question
        statement = search_statement(request, cells=question.session_id not in self._without_cells)
        found = self._found(statement, question.session_id, question.identity)
        session = found[0]
        self._remember_cells(question.session_id, session.has_cells)
        if not session.model_fits and request.embedding is not None and session.embedding_model is not None:
            raise EmbeddingModelMismatch(
                f"Session {question.session_id} was indexed with {session.embedding_model} "
                f"({session.dimension} dimensions); questions are now embedded with {request.embedding_model} "
                f"({len(request.embedding)}). Set the former model again, or index the project anew: "
                "`strata index PATH --session NAME --reindex`."
            )
        return _retrieved(found, request)

    def files(
        self, session_id: str, identity: Identity, paths: Sequence[str], *, layers: Sequence[Layer] = (), limit: int
    ) -> Retrieved:
        statement = files_statement(session_id, identity, paths, layers=layers, limit=limit)
        return _retrieved(self._found(statement, session_id, identity), None)

    def generation(self, session_id: str, identity: Identity) -> tuple[int, str]:
        rows = self._rows(session_statement(session_id, identity), session_id, identity)
        if not rows:
            raise SessionNotFound
        generation, model = rows[0]
        return generation, model or ""

    def sources(self, session_id: str, identity: Identity, chunk_ids: Sequence[int]) -> dict[int, str]:
        texts: dict[int, str] = {}
        rows = self._rows(sources_statement(session_id, identity, chunk_ids), session_id, identity)
        for path, content, found in rows:
            texts.update(dict.fromkeys(found, read_text(path, content)))
        return texts

    def file_page(
        self, session_id: str, identity: Identity, *, after: str, limit: int, most_bytes: int
    ) -> list[IndexedText]:
        statement = file_page_statement(session_id, identity, after=after, limit=limit, most_bytes=most_bytes)
        rows = self._settled(statement, session_id, identity, moved=0)
        return [
            IndexedText(path=path, blob_sha=blob_sha, text=read_text(path, content))
            for _, path, blob_sha, content in rows
            if path is not None
        ]

    def _found(self, statement: Statement, session_id: str, identity: Identity) -> list[Any]:
        """At least one row, without a chunk if nothing was found."""
        rows = self._settled(statement, session_id, identity, moved=SESSION_COLUMNS.index("index_moved"))
        return [_row._make(row) for row in rows]

    def _settled(
        self, statement: Statement, session_id: str, identity: Identity, *, moved: int
    ) -> list[tuple[Any, ...]]:
        """The rows of the live index, at least one; the column `moved` says that they are not. Raises
        `SessionNotFound`.
        """
        limit = time.monotonic() + _PATIENCE_S
        while True:
            rows = self._rows(statement, session_id, identity)
            if not rows:
                raise SessionNotFound
            if not rows[0][moved]:
                return rows
            self._indexes.pop(session_id, None)
            if time.monotonic() > limit:
                raise StoreUnavailable("The session's index is being replaced all the time; ask again.")

    def _rows(self, statement: Statement, session_id: str, identity: Identity) -> list[tuple[Any, ...]]:
        index_id = self._index_of(session_id, identity)
        if (prepared := statement.prepared) is None:
            return self._read(statement.text, statement.on(index_id), identity, index_id)
        call = {
            "name": prepared.name_for(index_id),
            "text": prepared.for_index(index_id),
            "arguments": prepared.arguments(statement.parameters),
        }
        return self._read(_PREPARED, call, identity, index_id)

    def _index_of(self, session_id: str, identity: Identity) -> int:
        """The number of the session's index, once asked for and then remembered: no right comes of knowing it."""
        if (known := self._indexes.get(session_id)) is not None:
            return known
        asked = index_statement(session_id)
        rows = self._read(asked.text, asked.parameters, identity, NO_INDEX)
        if not rows or rows[0][0] is None:
            return NO_INDEX
        if len(self._indexes) >= _KNOWN_SESSIONS:
            self._indexes.clear()
        self._indexes[session_id] = rows[0][0]
        return self._indexes[session_id]

    def _remember_cells(self, session_id: str, has_cells: bool | None) -> None:
        """For the next search of this session; one that is out of date looks at every row, which is slow and right."""
        if has_cells:
            self._without_cells.discard(session_id)
            return
        if len(self._without_cells) >= _KNOWN_SESSIONS:
            self._without_cells.clear()
        self._without_cells.add(session_id)

    def _read(
        self, text: sql.Composed | bytes, parameters: Mapping[str, object], identity: Identity, index_id: int
    ) -> list[tuple[Any, ...]]:
        settings = {
            "tenant": identity.tenant,
            "principals": json.dumps(identity.principals),
            "index": str(index_id),
            "statement_timeout": str(self._statement_timeout_ms),
        }

        def work(connection: Connection) -> psycopg.Cursor[tuple[Any, ...]]:
            connection.execute(_SETTINGS, settings)
            return connection.execute(text, parameters)

        return self._database.pipelined(work).fetchall()


def _retrieved(found: Sequence[Any], request: SearchRequest | None) -> Retrieved:
    asked_model = request.embedding_model if request else None
    return Retrieved(
        candidates=tuple(_candidate(row, request) for row in found if row.chunk_id is not None),
        generation=found[0].generation,
        embedding_model=found[0].embedding_model or asked_model or "",
        best_distance=found[0].best_distance,
        greatest_bm25=found[0].greatest_bm25,
    )


def _candidate(row: Any, request: SearchRequest | None) -> Candidate:
    layer = _LAYERS[row.layer]
    return Candidate(
        chunk_id=row.chunk_id,
        path=row.path,
        layer=layer,
        ordinal=row.ordinal,
        title=row.title,
        content=row.content,
        span=Span(start=row.span_start, end=row.span_end),
        blob_sha=row.blob_sha,
        metadata=row.metadata,
        score=row.score,
        dense_rank=row.dense_rank,
        distance=row.distance,
        lexical_rank=row.lexical_rank,
        bm25=row.bm25,
        prefer_bonus=row.prefer_bonus,
        test_penalty=row.test_penalty,
        layer_rank=LAYER_RANKS[layer],
        exact_rank=row.exact_rank,
        structural_rank=row.structural_rank,
        explanation=_explanation(row, request) if request is not None and request.question.explain else None,
    )


def _explanation(row: Any, request: SearchRequest) -> Explanation:
    names = ("dense_rank", "distance", "lexical_rank", "bm25", "exact_rank", "structural_rank", "terms")
    return explanation(
        request,
        **{name: getattr(row, name) for name in names},
        session_principals=row.session_principals,
        file_principals=row.file_principals,
    )
