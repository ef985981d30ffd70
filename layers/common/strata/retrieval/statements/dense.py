"""The list by meaning: the rows nearest to the question's vector."""

from __future__ import annotations

from psycopg import sql

from strata.model.corpus import Vector
from strata.ports.search import SearchRequest
from strata.retrieval.statements import conditions
from strata.retrieval.statements.shape import Shape

NEAREST_LEAST_ROWS = 10_000
"""With fewer rows to find, looking at each is as fast as going by the cells, and exact."""
NEAREST_LEAST_SHARE = 0.01
"""Where fewer of an index' rows may be found, a search of the cells meets too many others."""

# Every allowed row is looked at, unless the cells (below) have brought enough.
_DENSE = sql.SQL("""{cells}
dense AS (
    SELECT nearest.*, row_number() OVER (ORDER BY distance, chunk_id) AS rank
    FROM (
        {from_cells} (
            SELECT chunk.chunk_id, chunk.embedding <=> %(embedding)s::halfvec AS distance, {preferences}
            FROM rag_chunk_vectors AS chunk
            WHERE {unless_from_cells} {matching}
            ORDER BY {preferred_first} distance, chunk_id
            LIMIT %(depth)s
        )
    ) AS nearest
    WHERE {in_session}
)""")

# By the cells (IVFFlat's lists) where the index has them and the search may find many rows. The cells name rows; their
# distances are computed here, exactly, and the filter is applied once more. The search of the cells gives up when too
# few of the rows that it meets are allowed: a short list is drawn from all rows. OFFSET 0: each named row is looked up
# by its key; the planner, who may not know how large the index is, would read all of its rows to find a hundred.
_CELLS = sql.SQL("""
nearest_plan AS MATERIALIZED (
    SELECT coalesce(nearest_rows IS NOT NULL AND allowed_share >= %(least_share)s::float8
                    AND allowed_share * nearest_rows >= %(least_rows)s::float8, false) AS by_cells, allowed_share
    FROM session CROSS JOIN LATERAL (
        SELECT CASE WHEN session.nearest_rows IS NOT NULL THEN strata_allowed_share(
            session.index_id, %(layers)s::text[], %(included)s::text[], %(excluded)s::text[], %(principals)s::text[]
        ) END AS allowed_share
    ) AS sampled
),
by_cells AS MATERIALIZED (
    SELECT chunk.*
    FROM strata_nearest(
        (SELECT index_id FROM session), (SELECT dimension FROM session), (SELECT nearest_rows FROM session),
        (SELECT allowed_share FROM nearest_plan), %(embedding)s::halfvec,
        %(layers)s::text[], %(included)s::text[], %(excluded)s::text[], %(principals)s::text[], 2 * %(depth)s::int
    ) AS named CROSS JOIN LATERAL (
        SELECT chunk.chunk_id, chunk.embedding <=> %(embedding)s::halfvec AS distance, {preferences}
        FROM rag_chunk_vectors AS chunk WHERE chunk.chunk_id = named.chunk_id AND {allowed} OFFSET 0
    ) AS chunk
    WHERE (SELECT by_cells FROM nearest_plan)
    ORDER BY distance, chunk_id
    LIMIT %(depth)s
),""")
_FROM_CELLS = sql.SQL("SELECT * FROM by_cells WHERE (SELECT count(*) = %(depth)s FROM by_cells) UNION ALL")
_UNLESS_FROM_CELLS = sql.SQL("(SELECT count(*) < %(depth)s FROM by_cells) AND")

_NO_DENSE = sql.SQL("""
dense AS (
    SELECT NULL::bigint AS chunk_id, NULL::float8 AS distance, NULL::text AS path, 0 AS prefer_bonus, 0 AS test_penalty,
           NULL::bigint AS rank
    WHERE false
)""")

# The score that a row's own list did not bring: looked up by the row's key, for the rows that are returned only.
_DISTANCE = sql.SQL("""coalesce(fused.distance, (
    SELECT counted.embedding <=> %(embedding)s::halfvec FROM rag_chunk_vectors AS counted
    WHERE {counted_in_index} AND counted.chunk_id = fused.chunk_id
))""")


def dense_list(shape: Shape) -> sql.Composable:
    """The rows of `dense`: the nearest by cosine distance, ties by id."""
    if not shape.has_embedding:
        return _NO_DENSE
    preferences, preferred_first = conditions.preferences(shape.filter)
    cells = _CELLS.format(preferences=preferences, allowed=conditions.allowed(shape.filter))
    return _DENSE.format(
        cells=cells if shape.by_cells else sql.SQL(""),
        from_cells=_FROM_CELLS if shape.by_cells else sql.SQL(""),
        unless_from_cells=_UNLESS_FROM_CELLS if shape.by_cells else sql.SQL(""),
        preferences=preferences,
        matching=conditions.matching(shape.filter),
        in_session=conditions.IN_SESSION,
        preferred_first=preferred_first,
    )


def distance(shape: Shape) -> sql.Composable:
    """Of a fused row, whichever list found it."""
    if not shape.has_embedding:
        return sql.SQL("NULL::float8")
    return _DISTANCE.format(counted_in_index=conditions.in_index("counted"))


def dense_parameters(request: SearchRequest) -> dict[str, object]:
    return {
        "embedding_model": request.embedding_model,
        "dimension": None if request.embedding is None else len(request.embedding),
        "embedding": None if request.embedding is None else vector_literal(request.embedding),
        "least_rows": NEAREST_LEAST_ROWS,
        "least_share": NEAREST_LEAST_SHARE,
    }


def vector_literal(vector: Vector) -> str:
    """The vector as pgvector reads it; float32 survives the way.

    >>> import numpy as np
    >>> vector_literal(np.array([0.5, -0.25], dtype=np.float32))
    '[0.5,-0.25]'
    """
    return f"[{('%.9g,' * len(vector))[:-1] % tuple(vector.tolist())}]"
