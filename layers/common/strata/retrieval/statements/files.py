"""What is read without a ranking: the session, whole files by path, and the bytes behind chunks."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from strata.model.access import Identity
from strata.model.asking import Filter
from strata.model.corpus import Layer
from strata.retrieval.statements import conditions
from strata.retrieval.statements.rows import Statement, columns

_FILES = sql.SQL("""
WITH {session}
SELECT {columns}
FROM session LEFT JOIN (
    SELECT chunk.*, 0::float8 AS score, NULL::bigint AS dense_rank, NULL::float8 AS distance,
           NULL::bigint AS lexical_rank, NULL::float8 AS bm25, 0 AS prefer_bonus, 0 AS test_penalty,
           NULL::bigint AS exact_rank, NULL::bigint AS structural_rank, NULL::jsonb AS terms,
           NULL::text[] AS session_principals,
           NULL::text[] AS file_principals, NULL::float8 AS best_distance, NULL::float8 AS greatest_bm25
    FROM rag_chunks AS chunk
    WHERE {allowed} AND chunk.path = ANY (%(paths)s::text[])
) AS found ON true
ORDER BY array_position(%(paths)s::text[], path), layer, ordinal
LIMIT %(limit)s
""")

_SESSION_ONLY = sql.SQL("""
WITH {session} SELECT generation, embedding_model FROM session
""")

_INDEX = sql.SQL("""
SELECT active_index_id FROM rag_sessions WHERE session_id = %(session_id)s
""")

# One row a file: pieces of the same file share its bytes.
_SOURCES = sql.SQL("""
WITH {session}
SELECT chunk.path, cached.source, chunk.chunk_ids
FROM session CROSS JOIN LATERAL (
    SELECT chunk.blob_id, chunk.path, array_agg(chunk.chunk_id) AS chunk_ids FROM rag_chunks AS chunk
    WHERE {allowed} AND chunk.chunk_id = ANY (%(chunk_ids)s::bigint[])
    GROUP BY chunk.blob_id, chunk.path
) AS chunk
JOIN rag_blob_cache AS cached USING (blob_id)
""")

# The next files by path, as many as fit: a file's bytes are read only where its running total begins within the limit.
_FILE_PAGE = sql.SQL("""
WITH {session}, page AS (
    SELECT cached.blob_id, chunk.path, octet_length(cached.source) AS size,
           sum(octet_length(cached.source)) OVER (ORDER BY chunk.path) AS total
    FROM (
        SELECT DISTINCT chunk.path, chunk.blob_id FROM rag_chunks AS chunk
        WHERE {allowed} AND chunk.path > %(after)s
        ORDER BY chunk.path LIMIT %(limit)s
    ) AS chunk
    JOIN rag_blob_cache AS cached USING (blob_id)
)
SELECT session.index_moved, page.path, cached.blob_sha, cached.source
FROM session
LEFT JOIN page ON page.total - page.size < %(most_bytes)s
LEFT JOIN rag_blob_cache AS cached USING (blob_id)
ORDER BY page.path
""")


def files_statement(
    session_id: str, identity: Identity, paths: Sequence[str], *, layers: Sequence[Layer], limit: int
) -> Statement:
    """Every chunk of the files, in the order in which the paths are given, then by layer and place in the file."""
    filter = Filter(layers=tuple(layers))
    return Statement(
        text=_FILES.format(session=conditions.SESSION, allowed=conditions.allowed(filter), columns=columns()),
        parameters={
            **conditions.session_parameters(session_id, identity),
            **conditions.filter_parameters(filter),
            "paths": list(paths),
            "limit": limit,
        },
    )


def index_statement(session_id: str) -> Statement:
    """The session's index: no row where the caller sees no session."""
    return Statement(text=sql.Composed([_INDEX]), parameters={"session_id": session_id})


def session_statement(session_id: str, identity: Identity) -> Statement:
    """The generation and the embedding model, for a caller who may read the session."""
    return Statement(
        text=_SESSION_ONLY.format(session=conditions.SESSION),
        parameters=conditions.session_parameters(session_id, identity),
    )


def sources_statement(session_id: str, identity: Identity, chunk_ids: Sequence[int]) -> Statement:
    """Path, bytes and chunk ids of each file behind the chunks that the caller may read."""
    return Statement(
        text=_SOURCES.format(session=conditions.SESSION, allowed=conditions.allowed(Filter())),
        parameters={**conditions.session_parameters(session_id, identity), "chunk_ids": list(chunk_ids)},
    )


def file_page_statement(session_id: str, identity: Identity, *, after: str, limit: int, most_bytes: int) -> Statement:
    """The next files by path: whether the index has moved, path, hash, bytes; one row without them if none is left."""
    return Statement(
        text=_FILE_PAGE.format(session=conditions.SESSION, allowed=conditions.allowed(Filter())),
        parameters={
            **conditions.session_parameters(session_id, identity),
            "after": after,
            "limit": limit,
            "most_bytes": most_bytes,
        },
    )
