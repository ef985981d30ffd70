"""The list by words: the rows with the best BM25."""

from __future__ import annotations

from functools import partial

from psycopg import sql

from strata.ports.search import SearchRequest
from strata.retrieval.bm25 import LEADING_WEIGHT
from strata.retrieval.statements import conditions
from strata.retrieval.statements.shape import Shape

TERM_SPACE = 1_000_000_000
"""The dimension of `rag_chunk_terms.weights`: the greatest that pgvector's sparsevec has; a term's id is its place."""
FIRST_DRAW_ROWS = 600
"""About how many rows the rarest terms of a question may bring before there is a threshold."""
SMALL_ROWS = 2_000
"""Of so few rows each is scored, without a look at the postings: the planner, who may not know such an index yet, would
find its rows by their key and compare every word of each with every word of the question, at ten times the cost."""
MOST_POSTINGS = 1.25
"""With more postings than so many for each row that is searched, most rows hold one of the words, and to score every
row costs less than to look up which."""
_BELOW_FLOAT_ERROR = 0.9999
"""Bounds must stay below the threshold by more than the inner product's float32 can be wrong."""

# MaxScore in two draws. N and the document frequencies are summed over the layers that are covered; a term's bound
# is the most that it can add to a score. `idf` scores a row by all terms, whichever found it. The first draw looks up
# the rarest terms only, few rows whatever the question's length. When it fills the list, its last score is a threshold:
# terms whose bounds together stay below it can't lift a row into the list, so the second draw leaves them out, and
# mostly nothing is left to draw. The result is that of looking up every term. Where preferences come before the score,
# the threshold holds only if the whole list is of the best kind.
# MATERIALIZED: computed once, not for each chunk.
_LEADING = sql.SQL("""
                   * CASE WHEN held.term_id = ANY (ARRAY(
                         SELECT term_id FROM rag_terms WHERE term = ANY (%(leading_terms)s::text[])
                     )) THEN {leading_weight} ELSE 1 END""")
_LEXICAL = sql.SQL("""
covered AS MATERIALIZED (
    SELECT counted.layer, counted.chunk_count FROM rag_index_layers AS counted
    WHERE {counted_in_index} AND {covered_layer}
),
asked AS MATERIALIZED (
    SELECT term_id, key, df, idf, idf * greatest_weight AS bound,
           sum(df) OVER (ORDER BY df, term_id ROWS UNBOUNDED PRECEDING) AS rows_so_far,
           row_number() OVER (ORDER BY df, term_id) AS place, rank() OVER (ORDER BY df) AS rarity
    FROM (
        SELECT held.term_id, (%(index_id)s::bigint << 32) | held.term_id AS key,
               sum(held.document_frequency) AS df, max(held.greatest_weight) AS greatest_weight,
               ln(1 + ((SELECT sum(chunk_count) FROM covered)::float8 - sum(held.document_frequency) + 0.5)
                      / (sum(held.document_frequency) + 0.5)){leading} AS idf
        FROM covered CROSS JOIN LATERAL (
            SELECT counted.term_id, counted.document_frequency, counted.greatest_weight FROM rag_index_terms AS counted
            WHERE {counted_in_index} AND counted.layer = covered.layer
              AND counted.term_id = ANY (ARRAY(SELECT term_id FROM rag_terms WHERE term = ANY (%(terms)s::text[])))
        ) AS held
        GROUP BY held.term_id
    ) AS counted
),
query AS MATERIALIZED (
    SELECT ('{{' || string_agg(term_id || ':' || idf, ',') || '}}/{term_space}')::sparsevec AS idf,
           array_agg(key) FILTER (WHERE place = 1 OR rows_so_far <= %(first_draw_rows)s::bigint) AS keys,
           (SELECT sum(counted.chunk_count) FROM rag_index_layers AS counted WHERE {counted_in_index})
               <= %(small_rows)s::bigint AS of_few
    FROM asked
),
first_draw AS MATERIALIZED (
    SELECT drawn.* FROM (
        SELECT chunk.chunk_id, -(chunk.weights <#> (SELECT idf FROM query)) AS bm25, {preferences}
        FROM rag_chunk_terms AS chunk
        WHERE chunk.term_keys && (SELECT keys FROM query) AND {matching}
        ORDER BY {preferred_first} bm25 DESC, chunk_id
        LIMIT %(depth)s
    ) AS drawn
    WHERE {in_session} AND NOT (SELECT of_few FROM query)
),
threshold AS MATERIALIZED (
    SELECT CASE WHEN count(*) = %(depth)s AND {all_preferred} THEN min(bm25) ELSE 0 END AS bm25 FROM first_draw
),
remaining AS MATERIALIZED (
    SELECT array_agg(key) AS keys,
           bool_or(of_few)
               OR sum(df) > %(most_postings)s::float8 * (SELECT sum(chunk_count) FROM covered) AS all_rows
    FROM (
        SELECT key, df, sum(bound) OVER (ORDER BY bound, term_id ROWS UNBOUNDED PRECEDING) AS bounds FROM asked
    ) AS ordered CROSS JOIN query
    WHERE bounds >= {below_float_error} * (SELECT bm25 FROM threshold) AND (of_few OR key <> ALL (keys))
),
second_draw AS MATERIALIZED (
    {found_by_words} UNION ALL {among_all_rows}
    ORDER BY {preferred_first} bm25 DESC, chunk_id
    LIMIT %(depth)s
),
lexical AS (
    SELECT matching.*, row_number() OVER (ORDER BY bm25 DESC, chunk_id) AS rank
    FROM (
        SELECT * FROM first_draw UNION SELECT * FROM second_draw
        ORDER BY {preferred_first} bm25 DESC, chunk_id
        LIMIT %(depth)s
    ) AS matching
)""")

# OFFSET 0: a row is scored once, and only if it may be found at all: its readers and its path cost less to look at.
_SCORED = sql.SQL("""
    SELECT chunk.chunk_id, bm25, {preferences}
    FROM (
        SELECT chunk.*, -(chunk.weights <#> (SELECT idf FROM query)) AS bm25
        FROM rag_chunk_terms AS chunk
        WHERE {found} AND {matching}
        OFFSET 0
    ) AS chunk
    WHERE bm25 > 0 AND bm25 >= (SELECT bm25 FROM threshold) AND {in_session} AND {only_if}""")
_FOUND_BY_WORDS = sql.SQL("chunk.term_keys && (SELECT keys FROM remaining)")

_NO_LEXICAL = sql.SQL("""
lexical AS (
    SELECT NULL::bigint AS chunk_id, NULL::float8 AS bm25, NULL::text AS path, 0 AS prefer_bonus, 0 AS test_penalty,
           NULL::bigint AS rank
    WHERE false
)""")

_BM25 = sql.SQL("""coalesce(fused.bm25, (
    SELECT -(counted.weights <#> (SELECT idf FROM query)) FROM rag_chunk_terms AS counted
    WHERE {counted_in_index} AND counted.chunk_id = fused.chunk_id
), 0)""")
# NULL where a file has a list of readers: a word's idf counts the files that the caller may not read, too.
_TERM_PARTS = sql.SQL("""CASE WHEN NOT readable.has_restricted THEN coalesce((
    SELECT jsonb_object_agg(words.term, -(counted.weights <#> concat(
        '{{', asked.term_id, ':', asked.idf, '}}/{term_space}')::sparsevec))
    FROM rag_chunk_terms AS counted
    JOIN asked ON asked.key = ANY (counted.term_keys) JOIN rag_terms AS words ON words.term_id = asked.term_id
    WHERE {counted_in_index} AND counted.chunk_id = fused.chunk_id
), '{{}}') END""")


def lexical_list(shape: Shape) -> sql.Composable:
    """The rows of `lexical`, best first, ties by id; before it the words of the question as `asked` and `query`."""
    if not shape.has_terms:
        return _NO_LEXICAL
    filter = shape.filter
    preferences, preferred_first = conditions.preferences(filter)
    matching, in_session = conditions.matching(filter), conditions.IN_SESSION
    scored = partial(_SCORED.format, preferences=preferences, matching=matching, in_session=in_session)
    return _LEXICAL.format(
        leading=_LEADING.format(leading_weight=sql.Literal(LEADING_WEIGHT)) if shape.leads else sql.SQL(""),
        preferences=preferences,
        preferred_first=preferred_first,
        found_by_words=scored(found=_FOUND_BY_WORDS, only_if=sql.SQL("NOT (SELECT all_rows FROM remaining)")),
        among_all_rows=scored(found=sql.SQL("true"), only_if=sql.SQL("(SELECT all_rows FROM remaining)")),
        matching=matching,
        in_session=in_session,
        counted_in_index=conditions.in_index("counted"),
        covered_layer=conditions.in_layers("counted", filter),
        all_preferred=conditions.all_preferred(filter),
        below_float_error=sql.Literal(_BELOW_FLOAT_ERROR),
        term_space=sql.Literal(TERM_SPACE),
    )


def bm25(shape: Shape) -> sql.Composable:
    """Of a fused row, whichever list found it."""
    if not shape.has_terms:
        return sql.SQL("NULL::float8")
    return _BM25.format(counted_in_index=conditions.in_index("counted"))


def term_parts(shape: Shape) -> sql.Composable:
    """What each word adds to the BM25 of a fused row."""
    if not shape.has_terms:
        return sql.SQL("NULL::jsonb")
    return _TERM_PARTS.format(counted_in_index=conditions.in_index("counted"), term_space=sql.Literal(TERM_SPACE))


def lexical_parameters(request: SearchRequest) -> dict[str, object]:
    return {
        "terms": list(request.terms),
        "leading_terms": list(request.leading_terms),
        "first_draw_rows": FIRST_DRAW_ROWS,
        "small_rows": SMALL_ROWS,
        "most_postings": MOST_POSTINGS,
    }
