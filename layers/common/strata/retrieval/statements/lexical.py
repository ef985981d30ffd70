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
BLOCK_ROWS = 960
"""Rows of a block of a frequent word's postings: so many that its vector, where all of them hold the word, is less than
a page, and a multiple of 60 by a power of two."""
LEFT_OUT_SHARE = 0.05
"""Of the threshold: words whose bounds together stay below it are not added up. They are the most frequent ones, whose
vectors take longest, and few more rows come up to what the others must reach then."""
_LEVELS, _BELOW_A_LEVEL = 32, 0.001
"""A factor of a word is a power of e in so many steps; one that is above a level by less than float4's error is on
it."""
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
           row_number() OVER (ORDER BY df, term_id) AS place,
           sum(idf * greatest_weight) OVER (ORDER BY idf * greatest_weight, term_id ROWS UNBOUNDED PRECEDING) AS bounds
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
    FROM asked CROSS JOIN query
    WHERE bounds >= {below_float_error} * (SELECT bm25 FROM threshold) AND (of_few OR key <> ALL (keys))
),
{blocks}
second_draw AS MATERIALIZED (
    {found_by_words} UNION {among_all_rows} UNION {of_rare_words} UNION {reached} UNION {outside}
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
_OF_RARE_WORDS = sql.SQL("chunk.term_keys && (SELECT rare_keys FROM by_blocks)")
_OUTSIDE = sql.SQL(
    "chunk.chunk_id > (SELECT blocks_upto FROM by_blocks) AND chunk.chunk_id <= (SELECT endless FROM by_blocks)"
)
_NOT_BY_BLOCKS = sql.SQL("NOT (SELECT chosen FROM by_blocks)")
_BY_BLOCKS = sql.SQL("(SELECT chosen FROM by_blocks)")
# Each row is looked up by its key, as those that the cells name.
_REACHED = sql.SQL("""
    SELECT chunk.chunk_id, bm25, {preferences}
    FROM (SELECT chunk_id FROM reached) AS named CROSS JOIN LATERAL (
        SELECT chunk.*, -(chunk.weights <#> (SELECT idf FROM query)) AS bm25
        FROM rag_chunk_terms AS chunk
        WHERE chunk.chunk_id = named.chunk_id AND {matching}
        OFFSET 0
    ) AS chunk
    WHERE bm25 >= (SELECT bm25 FROM threshold) AND {in_session} AND {by_blocks}""")

# Where the index has blocks of its frequent words (see `storage.postgres.term_blocks`) and there is a threshold, the
# words that have blocks are added up for a block of rows at once: `reached` are the rows whose sums come up to it. They
# are scored anew, as are all rows with one of the other words, and those that have no place in a block: who is in
# neither holds words with blocks only, and too little of them.
# The vectors hold weights times the idf of a search of the default layers. Where a word's idf is another one it is
# taken for a little more than it is, so that words share a factor and their vectors are added before they are
# multiplied: pgvector multiplies vectors by vectors, where the factor stands BLOCK_ROWS times.
# The words that can add least are left out, and the most that they could have added is taken off what must be reached.
# A block's row numbers are stored beside its row; with none added they are fetched once, and not for each number.
# ORDER BY and LIMIT: whether a word has blocks is looked up by its key, also where the planner does not know the table.
_BLOCKS = sql.SQL("""
by_blocks AS MATERIALIZED (
    SELECT coalesce(session.blocks_upto IS NOT NULL AND threshold.bm25 > 0 AND remaining.keys IS NOT NULL
                    AND NOT of_few, false) AS chosen,
           session.blocks_upto, 9223372036854775807 AS endless,
           (SELECT coalesce(max(bounds), 0) FROM asked
            WHERE bounds <= %(left_out_share)s::float8 * threshold.bm25) AS left_out,
           ARRAY(
               SELECT key FROM asked WHERE key <> ALL (query.keys) AND (
                   SELECT counted.block FROM rag_term_blocks AS counted
                   WHERE {counted_in_index} AND counted.term_id = asked.term_id
                   ORDER BY counted.layer, counted.block LIMIT 1
               ) IS NULL
           ) AS rare_keys
    FROM session CROSS JOIN threshold CROSS JOIN remaining CROSS JOIN query
),
reached AS MATERIALIZED (
    SELECT places.chunk_ids[above.place] AS chunk_id
    FROM (
        SELECT block, binary_quantize(total - {threshold_everywhere})::text AS reaching
        FROM (
            SELECT block, sum(parts) AS total
            FROM (
                SELECT held.block, CASE held.level WHEN 0 THEN sum(held.scores::vector)
                                   ELSE sum(held.scores::vector) * {factor_everywhere} END AS parts
                FROM asked CROSS JOIN LATERAL (
                    SELECT counted.block, counted.scores,
                           ceil({levels} * ln(asked.idf / counted.idf) - {below_a_level})::int AS level
                    FROM rag_term_blocks AS counted
                    WHERE {counted_in_index} AND counted.term_id = asked.term_id AND {covered_layer} OFFSET 0
                ) AS held
                WHERE asked.bounds > (SELECT left_out FROM by_blocks)
                GROUP BY held.block, held.level
            ) AS weighed
            GROUP BY block
        ) AS sums
        OFFSET 0
    ) AS blocks CROSS JOIN LATERAL (
        SELECT sum(length(gap) + 1) OVER (ORDER BY number) AS place, number, count(*) OVER () AS gaps
        FROM string_to_table(blocks.reaching, '1') WITH ORDINALITY AS gap (gap, number)
    ) AS above CROSS JOIN LATERAL (
        SELECT counted.chunk_ids || '{{}}' AS chunk_ids FROM rag_block_rows AS counted
        WHERE {counted_in_index} AND counted.block = blocks.block OFFSET 0
    ) AS places
    WHERE blocks.reaching LIKE '%%1%%' AND above.number < above.gaps AND (SELECT chosen FROM by_blocks)
),""")
_EVERYWHERE = sql.SQL("""(
                SELECT v || v FROM (SELECT v || v AS v FROM (SELECT v || v AS v FROM (SELECT v || v AS v FROM (
                    SELECT array_fill({value}::float4, ARRAY[{sixteenth}])::vector AS v
                OFFSET 0) AS a OFFSET 0) AS b OFFSET 0) AS c OFFSET 0) AS d
            )""")

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
        blocks=_BLOCKS.format(
            counted_in_index=conditions.in_index("counted"),
            covered_layer=conditions.in_layers("counted", filter),
            levels=sql.Literal(_LEVELS),
            below_a_level=sql.Literal(_BELOW_A_LEVEL),
            factor_everywhere=_everywhere(
                sql.SQL("exp(held.level::float8 / {levels})").format(levels=sql.Literal(_LEVELS))
            ),
            threshold_everywhere=_everywhere(
                sql.SQL("({below} * (SELECT bm25 FROM threshold) - (SELECT left_out FROM by_blocks))").format(
                    below=sql.Literal(_BELOW_FLOAT_ERROR)
                )
            ),
        ),
        found_by_words=scored(
            found=_FOUND_BY_WORDS,
            only_if=sql.SQL("NOT (SELECT all_rows FROM remaining) AND {}").format(_NOT_BY_BLOCKS),
        ),
        among_all_rows=scored(
            found=sql.SQL("true"), only_if=sql.SQL("(SELECT all_rows FROM remaining) AND {}").format(_NOT_BY_BLOCKS)
        ),
        of_rare_words=scored(found=_OF_RARE_WORDS, only_if=_BY_BLOCKS),
        outside=scored(found=_OUTSIDE, only_if=_BY_BLOCKS),
        reached=_REACHED.format(
            preferences=preferences, matching=matching, in_session=in_session, by_blocks=_BY_BLOCKS
        ),
        matching=matching,
        in_session=in_session,
        counted_in_index=conditions.in_index("counted"),
        covered_layer=conditions.in_layers("counted", filter),
        all_preferred=conditions.all_preferred(filter),
        below_float_error=sql.Literal(_BELOW_FLOAT_ERROR),
        term_space=sql.Literal(TERM_SPACE),
    )


def _everywhere(value: sql.Composable) -> sql.Composable:
    """A vector that has this number at each place of a block."""
    return _EVERYWHERE.format(value=value, sixteenth=sql.Literal(BLOCK_ROWS // 16))


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
        "left_out_share": LEFT_OUT_SHARE,
    }
