"""The list by links: neighbours of the best rows."""

from __future__ import annotations

from psycopg import sql

from strata.retrieval.fusion import RANK_CONSTANT
from strata.retrieval.statements import conditions
from strata.retrieval.statements.shape import Shape

SEEDS = 10
"""The best rows whose neighbours are looked for."""
MOST_DEFINITIONS, MOST_USES = 3, 20
"""A name with more of them leads nowhere in particular."""

# Neighbours of the best rows over the links of their files: where the names in their lines are defined, and the lines
# that name what they define (a document beside the code that it describes, a caller, a callee, a base class). A name
# that many files define, or that stands everywhere, leads nowhere in particular. The more and the better the rows that
# lead to a neighbour, the better its rank. Both ends of a link are readable.
_STRUCTURAL = sql.SQL("""
seeds AS MATERIALIZED (
    SELECT wide.chunk_id, wide.path, wide.span_start, wide.span_end, best.score
    FROM (
        SELECT chunk_id, coalesce(%(dense_weight)s::float8 / ({k} + dense.rank), 0)
                         + coalesce(%(lexical_weight)s::float8 / ({k} + lexical.rank), 0)
                         + coalesce(%(exact_weight)s::float8 / ({k} + exact.rank), 0) AS score
        FROM dense FULL JOIN lexical USING (chunk_id) FULL JOIN exact USING (chunk_id)
        ORDER BY score DESC, chunk_id
        LIMIT {seeds}
    ) AS best JOIN rag_chunks AS wide USING (chunk_id)
    WHERE {readable}
),
linked AS MATERIALIZED (
    SELECT seeds.chunk_id, seeds.score, link.kind = 'defines' AS defines, link.key, link.is_path
    FROM seeds JOIN rag_links AS link
        ON link.path = seeds.path AND link.line BETWEEN seeds.span_start AND seeds.span_end
    WHERE {readable_link}
    GROUP BY 1, 2, 3, 4, 5
),
other_ends AS MATERIALIZED (
    SELECT linked.chunk_id AS seed, linked.score, link.path, link.line
    FROM linked CROSS JOIN LATERAL (
        SELECT link.path, link.line, count(*) OVER () AS ends
        FROM rag_links AS link
        WHERE link.key = linked.key AND link.is_path = linked.is_path AND (link.kind = 'defines') <> linked.defines
          AND {readable_link}
    ) AS link
    WHERE link.ends <= CASE WHEN linked.defines THEN {most_uses} ELSE {most_definitions} END
),
structural AS (
    SELECT neighbours.*, row_number() OVER (ORDER BY strength DESC, chunk_id) AS rank
    FROM (
        SELECT chunk_id, path, prefer_bonus, test_penalty, sum(score) AS strength
        FROM (
            SELECT DISTINCT chunk.chunk_id, other_ends.seed, other_ends.score, {preferences}
            FROM other_ends JOIN rag_chunks AS chunk
                ON chunk.path = other_ends.path AND other_ends.line BETWEEN chunk.span_start AND chunk.span_end
            WHERE {allowed} AND chunk.chunk_id <> other_ends.seed
        ) AS led_to
        GROUP BY chunk_id, path, prefer_bonus, test_penalty
        ORDER BY {preferred_first} strength DESC, chunk_id
        LIMIT %(depth)s
    ) AS neighbours
)""")
_NO_STRUCTURAL = sql.SQL("""
structural AS (
    SELECT NULL::bigint AS chunk_id, NULL::text AS path, 0 AS prefer_bonus, 0 AS test_penalty, NULL::bigint AS rank
    WHERE false
)""")


def structural_list(shape: Shape) -> sql.Composable:
    """The rows of `structural`, by how much the rows that lead to them score."""
    if not shape.is_structural:
        return _NO_STRUCTURAL
    preferences, preferred_first = conditions.preferences(shape.filter)
    return _STRUCTURAL.format(
        k=sql.Literal(RANK_CONSTANT),
        seeds=sql.Literal(SEEDS),
        most_uses=sql.Literal(MOST_USES),
        most_definitions=sql.Literal(MOST_DEFINITIONS),
        readable=conditions.readable("wide"),
        readable_link=conditions.readable("link"),
        preferences=preferences,
        allowed=conditions.allowed(shape.filter),
        preferred_first=preferred_first,
    )
