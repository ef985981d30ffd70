"""The lists made one: reciprocal ranks added, files that give way, and the texts of the rows that are returned."""

from __future__ import annotations

from psycopg import sql

from strata.model.corpus import EMBEDDED_LAYERS
from strata.ports.search import SearchRequest
from strata.retrieval.filters import has_preferences
from strata.retrieval.fusion import RANK_CONSTANT
from strata.retrieval.statements import conditions
from strata.retrieval.statements.dense import dense_list, distance
from strata.retrieval.statements.exact import exact_list
from strata.retrieval.statements.lexical import bm25, lexical_list, term_parts
from strata.retrieval.statements.rows import columns
from strata.retrieval.statements.shape import Shape
from strata.retrieval.statements.structural import structural_list

FIRST_SHARE, FILE_ROWS = 0.7, 2
"""Of the rows that are returned, the first share are the best as they come. After them a file that has so many gives
way to others: whoever ranks anew can't take what is not there."""

# A row of a layer without vectors that holds no word of the question either is in no list. It comes last, so that as
# many rows come back as are allowed; with preferences before every row of a kind that is preferred less.
_UNRANKED = sql.SQL("""
unranked AS (
    SELECT chunk.chunk_id, {preferences}
    FROM rag_chunk_terms AS chunk
    WHERE {if_short} {allowed} AND chunk.layer <> ALL ({embedded_layers}::text[])
      AND chunk.chunk_id NOT IN (SELECT chunk_id FROM ranked)
    ORDER BY {preferred_first} chunk.chunk_id
    LIMIT %(rows)s
),""")
_IF_SHORT = sql.SQL("(SELECT count(*) < %(rows)s FROM ranked) AND")
_AND_UNRANKED = sql.SQL("""
    UNION ALL
    SELECT chunk_id, path, NULL, NULL, NULL, NULL, NULL, NULL, 0, prefer_bonus, test_penalty FROM unranked
""")

# LATERAL and OFFSET 0: the texts are looked up row by row. Of an index that the planner does not know yet it expects a
# single row; it would begin with the texts, and draw the lists' rows and their scores anew for each of them.
_FUSED = sql.SQL("""
WITH {session},{readable}{dense},{lexical},{exact},{structural},
ranked AS (
    SELECT chunk_id, coalesce(dense.path, lexical.path, exact.path, structural.path) AS path,
           dense.rank AS dense_rank, dense.distance, lexical.rank AS lexical_rank, lexical.bm25,
           exact.rank AS exact_rank, structural.rank AS structural_rank,
           coalesce(%(dense_weight)s::float8 / ({k} + dense.rank), 0)
           + coalesce(%(lexical_weight)s::float8 / ({k} + lexical.rank), 0)
           + coalesce(%(exact_weight)s::float8 / ({k} + exact.rank), 0)
           + coalesce(%(structural_weight)s::float8 / ({k} + structural.rank), 0) AS score,
           coalesce(
               dense.prefer_bonus, lexical.prefer_bonus, exact.prefer_bonus, structural.prefer_bonus
           ) AS prefer_bonus,
           coalesce(
               dense.test_penalty, lexical.test_penalty, exact.test_penalty, structural.test_penalty
           ) AS test_penalty
    FROM dense FULL JOIN lexical USING (chunk_id) FULL JOIN exact USING (chunk_id)
        FULL JOIN structural USING (chunk_id)
),{unranked}
scored AS (SELECT * FROM ranked {and_unranked}),
fused AS (
    SELECT * FROM (
        SELECT *, row_number() OVER (ORDER BY {preferred_first} score DESC, chunk_id) AS place,
               row_number() OVER (PARTITION BY path ORDER BY score DESC, chunk_id) AS row_of_file
        FROM scored
    ) AS numbered
    ORDER BY {preferred_first} place > %(first_rows)s AND row_of_file > {file_rows}, score DESC, chunk_id
    LIMIT %(rows)s
)
SELECT {columns}
FROM session LEFT JOIN (
    SELECT fused.chunk_id, fused.dense_rank, fused.lexical_rank, fused.exact_rank,
           fused.structural_rank, fused.score,
           fused.prefer_bonus, fused.test_penalty, {distance} AS distance, {bm25} AS bm25,
           {explained}
           (SELECT min(distance) FROM dense) AS best_distance, (SELECT max(bm25) FROM lexical) AS greatest_bm25,
           wide.path, layer, ordinal, title, content, span_start, span_end, blob_sha, metadata
    FROM fused CROSS JOIN LATERAL (
        SELECT * FROM rag_chunks AS wide WHERE wide.chunk_id = fused.chunk_id AND {allowed} OFFSET 0
    ) AS wide {joined_readable}
) AS found ON true
ORDER BY {preferred_first} score DESC, chunk_id
""")

_EXPLAINED = sql.SQL("""
           {terms} AS terms, readable.session_principals,
           CASE WHEN wide.acl IS NOT NULL THEN ARRAY(
               SELECT unnest(wide.acl) INTERSECT SELECT unnest(%(principals)s::text[]) ORDER BY 1
           ) END AS file_principals,
""")
_READABLE = sql.SQL("""
readable AS MATERIALIZED (
    SELECT ARRAY(
               SELECT unnest(s.readers || s.owner) INTERSECT SELECT unnest(%(principals)s::text[]) ORDER BY 1
           ) AS session_principals,
           EXISTS (
               SELECT FROM rag_chunk_terms AS counted WHERE {counted_in_index} AND counted.acl IS NOT NULL
           ) AS has_restricted
    FROM rag_sessions AS s WHERE s.session_id = %(session_id)s
),""")
_NOT_EXPLAINED = sql.SQL("""
           NULL::jsonb AS terms, NULL::text[] AS session_principals, NULL::text[] AS file_principals,
""")


def fused(shape: Shape) -> sql.Composed:
    """The whole search."""
    _, preferred_first = conditions.preferences(shape.filter)
    unranked = _unranked(shape)
    return _FUSED.format(
        session=conditions.SESSION,
        dense=dense_list(shape),
        lexical=lexical_list(shape),
        exact=exact_list(shape),
        structural=structural_list(shape),
        unranked=unranked or sql.SQL(""),
        and_unranked=_AND_UNRANKED if unranked else sql.SQL(""),
        k=sql.Literal(RANK_CONSTANT),
        preferred_first=preferred_first,
        file_rows=sql.Literal(FILE_ROWS),
        distance=distance(shape),
        bm25=bm25(shape),
        readable=_READABLE.format(counted_in_index=conditions.in_index("counted")) if shape.explains else sql.SQL(""),
        joined_readable=sql.SQL("CROSS JOIN readable") if shape.explains else sql.SQL(""),
        explained=_EXPLAINED.format(terms=term_parts(shape)) if shape.explains else _NOT_EXPLAINED,
        allowed=conditions.readable("wide"),
        columns=columns(),
    )


def _unranked(shape: Shape) -> sql.Composable | None:
    """None where a list by meaning alone may hold every row, or where there is none to fill up."""
    filter = shape.filter
    if not shape.has_embedding or (filter.layers and EMBEDDED_LAYERS.issuperset(filter.layers)):
        return None
    preferences, preferred_first = conditions.preferences(filter)
    return _UNRANKED.format(
        if_short=sql.SQL("") if has_preferences(filter) else _IF_SHORT,
        preferences=preferences,
        allowed=conditions.allowed(filter),
        embedded_layers=sql.Literal(sorted(EMBEDDED_LAYERS)),
        preferred_first=preferred_first,
    )


def fusion_parameters(request: SearchRequest) -> dict[str, object]:
    rows = max(request.rows, request.question.limit)
    return {
        "depth": max(request.depth, rows),
        "rows": rows,
        "first_rows": int(FIRST_SHARE * rows),
        "dense_weight": request.dense_weight,
        "lexical_weight": request.lexical_weight,
        "exact_weight": request.exact_weight,
        "structural_weight": request.structural_weight,
    }
