"""Builds the statements that read chunks: SQL text from fixed parts, every value a parameter. Pure.

Each statement begins with the session: the row of `session` is there only for a caller who may read it, and all the
rest hangs on its `index_id`. So a statement without a row says "no such session", and one row without a chunk says
"nothing found". A statement runs in a transaction that has `strata.tenant` and `strata.principals` set (the second
wall); its own conditions on session, principals, layers and paths are the first.

The number of the session's index is a parameter, `index_id`, which whoever runs a statement fills in: what
`index_statement` said, now or before. As a constant it lets the planner leave out the other partitions at once and know
how many rows the index has. It is a hint and no right: when `session` does not agree, `index_moved` is true and nothing
is found.

Ranking reads the narrow tables only; the texts are joined for the rows that are returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import LiteralString

from psycopg import sql

from strata.model.access import Identity
from strata.model.asking import Filter, Names
from strata.model.corpus import EMBEDDED_LAYERS, Layer, Vector
from strata.ports.search import SearchRequest
from strata.retrieval.bm25 import LEADING_WEIGHT
from strata.retrieval.filters import TEST_PATH, has_preferences, like_pattern
from strata.retrieval.fusion import RANK_CONSTANT
from strata.retrieval.prepared import PreparedText

TERM_SPACE = 1_000_000_000
"""The dimension of `rag_chunk_terms.weights`: the greatest that pgvector's sparsevec has; a term's id is its place."""

FIRST_DRAW_ROWS = 600
"""About how many rows the rarest terms of a question may bring before there is a threshold."""
SMALL_ROWS = 2_000
"""Of so few rows each is scored, without a look at the postings: the planner, who may not know such an index yet, would
find its rows by their key and compare every word of each with every word of the question, at ten times the cost."""
MOST_POSTINGS = 1.25
"""With more postings than so many for each row that is searched, most rows hold one of the words, and to score every row
costs less than to look up which."""
FIRST_SHARE, FILE_ROWS = 0.7, 2
"""Of the rows that are returned, the first share are the best as they come. After them a file that has so many gives
way to others: whoever ranks anew can't take what is not there."""
MOST_NAMED_ROWS = 1_000
"""About how many rows the rarest names of a question bring. Other names, which stand in so many rows that they tell few
of them apart, are looked for in these rows only."""
EXACT_ROWS_LOOKED_AT = 200
"""Rows with a name of the question whose texts are read to see what the name is there."""
SEEDS = 10
"""The best rows whose neighbours are looked for."""
MOST_DEFINITIONS, MOST_USES = 3, 20
"""A name with more of them leads nowhere in particular."""
NEAREST_LEAST_ROWS = 10_000
"""With fewer rows to find, looking at each is as fast as going by the cells, and exact."""
NEAREST_LEAST_SHARE = 0.01
"""Where fewer of an index' rows may be found, a search of the cells meets too many others."""
_BELOW_FLOAT_ERROR = 0.9999
"""Bounds must stay below the threshold by more than the inner product's float32 can be wrong."""


NO_INDEX = 0
"""A number that no index has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """`prepared` is the same text for a server to prepare, where that pays."""

    text: sql.Composed
    parameters: Mapping[str, object]
    prepared: PreparedText | None = None

    def on(self, index_id: int) -> Mapping[str, object]:
        """The parameters for this index."""
        return {**self.parameters, "index_id": index_id}


SESSION_TYPES: Mapping[LiteralString, LiteralString] = {
    "generation": "bigint", "embedding_model": "text", "dimension": "int", "model_fits": "bool", "index_moved": "bool",
    "has_cells": "bool",
}  # fmt: skip
CANDIDATE_TYPES: Mapping[LiteralString, LiteralString] = {
    "chunk_id": "bigint", "path": "text", "layer": "text", "ordinal": "int", "title": "text", "content": "text",
    "span_start": "int", "span_end": "int", "blob_sha": "text", "metadata": "jsonb",
    "score": "float8", "dense_rank": "bigint", "distance": "float8", "lexical_rank": "bigint", "bm25": "float8",
    "exact_rank": "bigint", "structural_rank": "bigint", "prefer_bonus": "int", "test_penalty": "int",
    "terms": "jsonb", "session_principals": "text[]", "file_principals": "text[]",
    "best_distance": "float8", "greatest_bm25": "float8",
}  # fmt: skip
CANDIDATE_COLUMNS = tuple(CANDIDATE_TYPES)
"""Columns of a found chunk; the last two are the best scores of the lists, the same in every row."""
SESSION_COLUMNS = tuple(SESSION_TYPES)
"""Columns of the session, before those of a chunk; the model and its dimension are NULL before the first index."""

# The request's model must be the index's: otherwise `index_id` is NULL and nothing is compared with vectors of another
# space or size.
_SESSION = sql.SQL("""
session AS MATERIALIZED (
    SELECT found.*, CASE WHEN model_fits AND NOT index_moved THEN active_index_id END AS index_id
    FROM (
        SELECT s.generation, s.active_index_id, i.embedding_model, i.dimension, i.nearest_rows,
               i.nearest_rows IS NOT NULL AS has_cells,
               %(embedding_model)s::text IS NULL
               OR (i.embedding_model = %(embedding_model)s AND i.dimension = %(dimension)s) AS model_fits,
               coalesce(s.active_index_id, 0) <> %(index_id)s::bigint AS index_moved
        FROM rag_sessions AS s LEFT JOIN rag_indexes AS i ON i.index_id = s.active_index_id
        WHERE s.session_id = %(session_id)s AND s.tenant = %(tenant)s
          AND (s.owner = ANY (%(principals)s::text[]) OR s.readers && %(principals)s::text[])
    ) AS found
)""")

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
# few of the rows that it meets are allowed: a short list is drawn from all rows.
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
    SELECT chunk.chunk_id, chunk.embedding <=> %(embedding)s::halfvec AS distance, {preferences}
    FROM strata_nearest(
        (SELECT index_id FROM session), (SELECT dimension FROM session), (SELECT nearest_rows FROM session),
        (SELECT allowed_share FROM nearest_plan), %(embedding)s::halfvec,
        %(layers)s::text[], %(included)s::text[], %(excluded)s::text[], %(principals)s::text[], 2 * %(depth)s::int
    ) AS named JOIN rag_chunk_vectors AS chunk ON chunk.chunk_id = named.chunk_id
    WHERE (SELECT by_cells FROM nearest_plan) AND {allowed}
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

# OFFSET 0: a row is scored once, and only those that may come into the list are looked at further.
_SCORED = sql.SQL("""
    SELECT chunk.chunk_id, bm25, {preferences}
    FROM (
        SELECT chunk.*, -(chunk.weights <#> (SELECT idf FROM query)) AS bm25
        FROM rag_chunk_terms AS chunk
        WHERE {found} AND chunk.index_id = %(index_id)s::bigint AND {in_layers}
        OFFSET 0
    ) AS chunk
    WHERE bm25 > 0 AND bm25 >= (SELECT bm25 FROM threshold) AND {matching} AND {in_session} AND {only_if}""")

_FOUND_BY_WORDS = sql.SQL("chunk.term_keys && (SELECT keys FROM remaining)")

_NO_LEXICAL = sql.SQL("""
lexical AS (
    SELECT NULL::bigint AS chunk_id, NULL::float8 AS bm25, NULL::text AS path, 0 AS prefer_bonus, 0 AS test_penalty,
           NULL::bigint AS rank
    WHERE false
)""")

# What the question names letter for letter. The terms of the names find the rows, few as they are; the best of them are
# looked at: is it the file or the definition of that name, or does it only mention it; does the phrase stand there?
# A phrase is looked for only where all of its words are, and OFFSET 0 keeps the planner from working that out twice.
_EXACT = sql.SQL("""
named AS MATERIALIZED (
    SELECT array_agg(key) FILTER (WHERE is_name) AS keys,
           array_agg(key) FILTER (WHERE is_name AND (rows_so_far = df OR rows_so_far <= {named_rows})) AS telling_keys
           {phrase_keys}
    FROM (
        SELECT *, sum(df) FILTER (WHERE is_name) OVER (ORDER BY df, key ROWS UNBOUNDED PRECEDING) AS rows_so_far
        FROM (
            SELECT term, key, term = ANY (%(name_terms)s::text[]) AS is_name, coalesce(asked.df, 0) AS df
            FROM (
                SELECT term, (%(index_id)s::bigint << 32) | term_id AS key
                FROM rag_terms WHERE term = ANY (%(name_terms)s::text[]{phrase_terms})
            ) AS known LEFT JOIN asked USING (key)
        ) AS counted
    ) AS words
),
looked_at AS (
    SELECT * FROM (
        SELECT chosen.chunk_id, chosen.path, chosen.prefer_bonus, chosen.test_penalty, chosen.bm25,
               chosen.names_held + ({phrases_held}) AS mentions,
               (lower(wide.path) = ANY (%(lower_names)s::text[])
                OR lower(wide.path) LIKE ANY (%(path_endings)s::text[])
                OR lower(wide.title) = ANY (%(lower_names)s::text[])
                OR lower(wide.title) LIKE ANY (%(symbol_endings)s::text[])
                OR lower(coalesce(wide.metadata ->> 'qualified_name', '')) = ANY (%(lower_names)s::text[])
               ) AS definition
        FROM (
            SELECT chunk.chunk_id, -(chunk.weights <#> (SELECT idf FROM query)) AS bm25, {preferences}, term_keys,
                   (SELECT count(*) FROM unnest((SELECT keys FROM named)) AS key WHERE key = ANY (chunk.term_keys))::int
                       AS names_held
            FROM rag_chunk_terms AS chunk
            WHERE ({found}) AND {allowed}
            ORDER BY {preferred_first} names_held DESC, bm25 DESC, chunk_id
            LIMIT {looked_at}
        ) AS chosen CROSS JOIN LATERAL (
            SELECT * FROM rag_chunks AS wide WHERE wide.chunk_id = chosen.chunk_id AND {readable} OFFSET 0
        ) AS wide
        OFFSET 0
    ) AS matching
    WHERE mentions > 0
    ORDER BY {preferred_first} definition DESC, mentions DESC, bm25 DESC, chunk_id
    LIMIT %(depth)s
),
exact AS (
    SELECT *, row_number() OVER (ORDER BY definition DESC, mentions DESC, bm25 DESC, chunk_id) AS rank FROM looked_at
)""")
_HOLDS_A_NAME = sql.SQL("chunk.term_keys && (SELECT telling_keys FROM named)")
# NULL, and so nothing, where a word of the phrase is in no chunk at all.
_PHRASE_KEYS = sql.SQL(""",
        CASE WHEN count(*) FILTER (WHERE term = ANY ({terms}::text[])) = cardinality({terms}::text[]) THEN
            array_agg(key) FILTER (WHERE term = ANY ({terms}::text[])) END AS {name}""")
_HOLDS_THE_WORDS = sql.SQL("{row}.term_keys @> (SELECT {name} FROM named)")
# Never NULL on the left: then the text would be looked through after all.
_HOLDS_THE_PHRASE = sql.SQL("""(coalesce({words_held}, false) AND position({text} in lower(
    regexp_replace(wide.content, '[[:space:]]+', ' ', 'g')
)) > 0)::int""")
_NO_EXACT = sql.SQL("""
exact AS (
    SELECT NULL::bigint AS chunk_id, NULL::text AS path, 0 AS prefer_bonus, 0 AS test_penalty, NULL::bigint AS rank
    WHERE false
)""")

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

# The score that a row's own list did not bring: looked up by the row's key, for the rows that are returned only.
_DISTANCE = sql.SQL("""coalesce(fused.distance, (
    SELECT counted.embedding <=> %(embedding)s::halfvec FROM rag_chunk_vectors AS counted
    WHERE {counted_in_index} AND counted.chunk_id = fused.chunk_id
))""")
_BM25 = sql.SQL("""coalesce(fused.bm25, (
    SELECT -(counted.weights <#> (SELECT idf FROM query)) FROM rag_chunk_terms AS counted
    WHERE {counted_in_index} AND counted.chunk_id = fused.chunk_id
), 0)""")

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
# NULL where a file has a list of readers: a word's idf counts the files that the caller may not read, too.
_TERM_PARTS = sql.SQL("""CASE WHEN NOT readable.has_restricted THEN coalesce((
    SELECT jsonb_object_agg(words.term, -(counted.weights <#> concat(
        '{{', asked.term_id, ':', asked.idf, '}}/{term_space}')::sparsevec))
    FROM rag_chunk_terms AS counted
    JOIN asked ON asked.key = ANY (counted.term_keys) JOIN rag_terms AS words ON words.term_id = asked.term_id
    WHERE {counted_in_index} AND counted.chunk_id = fused.chunk_id
), '{{}}') END""")
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


def search_statement(request: SearchRequest, *, cells: bool = True) -> Statement:
    """The search: at most `rows` rows, best first, and never fewer than the question's limit.

    Without `cells` every row is looked at: for an index that has none the statement is planned faster so.

    Where preferences are asked for, the lists of `depth` rows are drawn in the same order as the result (first
    everything preferred), so that no better row is lost to them; ranks in a list go by distance and BM25 alone.
    """
    question = request.question
    names = request.names if request.terms else Names()
    rows = max(request.rows, question.limit)
    text, prepared = _search_text(
        _Shape(
            filter=question.filter,
            has_embedding=request.embedding is not None,
            by_cells=cells and request.approximate and not has_preferences(question.filter),
            has_terms=bool(request.terms),
            leads=bool(request.leading_terms),
            has_names=bool(names.names),
            phrases=len(names.phrases),
            is_structural=bool(request.structural_weight),
            explains=question.explain,
        )
    )
    parameters = {
        **_session_parameters(question.session_id, question.identity),
        **_filter_parameters(question.filter),
        "embedding_model": request.embedding_model,
        "dimension": None if request.embedding is None else len(request.embedding),
        "embedding": None if request.embedding is None else vector_literal(request.embedding),
        "terms": list(request.terms),
        "leading_terms": list(request.leading_terms),
        "depth": max(request.depth, rows),
        "rows": rows,
        "first_rows": int(FIRST_SHARE * rows),
        "first_draw_rows": FIRST_DRAW_ROWS,
        "small_rows": SMALL_ROWS,
        "most_postings": MOST_POSTINGS,
        "least_rows": NEAREST_LEAST_ROWS,
        "least_share": NEAREST_LEAST_SHARE,
        "dense_weight": request.dense_weight,
        "lexical_weight": request.lexical_weight,
        "exact_weight": request.exact_weight,
        "structural_weight": request.structural_weight,
        **_name_parameters(names),
    }
    return Statement(text=text, parameters=parameters, prepared=prepared)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """All that the text of a search depends on."""

    filter: Filter
    has_embedding: bool
    by_cells: bool
    has_terms: bool
    leads: bool
    has_names: bool
    phrases: int
    is_structural: bool
    explains: bool


@lru_cache(maxsize=256)
def _search_text(shape: _Shape) -> tuple[sql.Composed, PreparedText]:
    filter = shape.filter
    preferences, preferred_first = _preferences(filter)
    allowed = _allowed(filter)
    counted_in_index = _in_index("counted")
    by_cells = shape.by_cells
    dense = _DENSE.format(
        cells=_CELLS.format(preferences=preferences, allowed=allowed) if by_cells else sql.SQL(""),
        from_cells=_FROM_CELLS if by_cells else sql.SQL(""),
        unless_from_cells=_UNLESS_FROM_CELLS if by_cells else sql.SQL(""),
        preferences=preferences,
        matching=_matching(filter),
        in_session=_IN_SESSION,
        preferred_first=preferred_first,
    )
    scored = partial(
        _SCORED.format,
        preferences=preferences,
        matching=_matching(filter),
        in_session=_IN_SESSION,
        in_layers=_in_layers("chunk", filter),
    )
    lexical = _LEXICAL.format(
        leading=_LEADING.format(leading_weight=sql.Literal(LEADING_WEIGHT)) if shape.leads else sql.SQL(""),
        preferences=preferences,
        found_by_words=scored(found=_FOUND_BY_WORDS, only_if=sql.SQL("NOT (SELECT all_rows FROM remaining)")),
        among_all_rows=scored(found=sql.SQL("true"), only_if=sql.SQL("(SELECT all_rows FROM remaining)")),
        matching=_matching(filter),
        in_session=_IN_SESSION,
        preferred_first=preferred_first,
        counted_in_index=counted_in_index,
        covered_layer=_in_layers("counted", filter),
        all_preferred=_all_preferred(filter),
        below_float_error=sql.Literal(_BELOW_FLOAT_ERROR),
        term_space=sql.Literal(TERM_SPACE),
    )
    has_unranked = shape.has_embedding and not (filter.layers and EMBEDDED_LAYERS.issuperset(filter.layers))
    text = _FUSED.format(
        session=_SESSION,
        dense=dense if shape.has_embedding else _NO_DENSE,
        lexical=lexical if shape.has_terms else _NO_LEXICAL,
        readable=_READABLE.format(counted_in_index=counted_in_index) if shape.explains else sql.SQL(""),
        joined_readable=sql.SQL("CROSS JOIN readable") if shape.explains else sql.SQL(""),
        explained=_explained(shape, counted_in_index) if shape.explains else _NOT_EXPLAINED,
        exact=_exact(shape, preferences, allowed, preferred_first) if shape.has_names or shape.phrases else _NO_EXACT,
        structural=_structural(preferences, allowed, preferred_first) if shape.is_structural else _NO_STRUCTURAL,
        unranked=_unranked(filter, preferences, allowed, preferred_first) if has_unranked else sql.SQL(""),
        and_unranked=_AND_UNRANKED if has_unranked else sql.SQL(""),
        k=sql.Literal(RANK_CONSTANT),
        preferred_first=preferred_first,
        file_rows=sql.Literal(FILE_ROWS),
        distance=_DISTANCE.format(counted_in_index=counted_in_index)
        if shape.has_embedding
        else sql.SQL("NULL::float8"),
        bm25=_BM25.format(counted_in_index=counted_in_index) if shape.has_terms else sql.SQL("NULL::float8"),
        allowed=_readable("wide"),
        columns=_columns(),
    )
    return text, PreparedText.of(text.as_string(None))


def _explained(shape: _Shape, counted_in_index: sql.Composable) -> sql.Composable:
    parts = _TERM_PARTS.format(counted_in_index=counted_in_index, term_space=sql.Literal(TERM_SPACE))
    return _EXPLAINED.format(terms=parts if shape.has_terms else sql.SQL("NULL::jsonb"))


def _exact(
    shape: _Shape, preferences: sql.Composable, allowed: sql.Composable, preferred_first: sql.Composable
) -> sql.Composable:
    phrases = [
        {
            "text": sql.Placeholder(f"phrase_{number}"),
            "terms": sql.Placeholder(f"phrase_terms_{number}"),
            "name": sql.Identifier(f"phrase_{number}"),
        }
        for number in range(shape.phrases)
    ]
    found: list[sql.Composable] = [_HOLDS_THE_WORDS.format(row=sql.SQL("chunk"), **phrase) for phrase in phrases]
    held = [
        _HOLDS_THE_PHRASE.format(words_held=_HOLDS_THE_WORDS.format(row=sql.SQL("chosen"), **phrase), **phrase)
        for phrase in phrases
    ]
    if shape.has_names:
        found.append(_HOLDS_A_NAME)
    return _EXACT.format(
        found=sql.SQL(" OR ").join(found),
        phrase_keys=sql.Composed([_PHRASE_KEYS.format(**phrase) for phrase in phrases]),
        phrase_terms=sql.Composed([sql.SQL(" || {terms}::text[]").format(**phrase) for phrase in phrases]),
        phrases_held=sql.SQL(" + ").join(held) if held else sql.SQL("0"),
        preferences=preferences,
        allowed=allowed,
        readable=_readable("wide"),
        preferred_first=preferred_first,
        looked_at=sql.Literal(EXACT_ROWS_LOOKED_AT),
        named_rows=sql.Literal(MOST_NAMED_ROWS),
    )


def _structural(
    preferences: sql.Composable, allowed: sql.Composable, preferred_first: sql.Composable
) -> sql.Composable:
    return _STRUCTURAL.format(
        k=sql.Literal(RANK_CONSTANT),
        seeds=sql.Literal(SEEDS),
        most_uses=sql.Literal(MOST_USES),
        most_definitions=sql.Literal(MOST_DEFINITIONS),
        readable=_readable("wide"),
        readable_link=_readable("link"),
        preferences=preferences,
        allowed=allowed,
        preferred_first=preferred_first,
    )


def _unranked(
    filter: Filter, preferences: sql.Composable, allowed: sql.Composable, preferred_first: sql.Composable
) -> sql.Composable:
    return _UNRANKED.format(
        if_short=sql.SQL("") if has_preferences(filter) else _IF_SHORT,
        preferences=preferences,
        allowed=allowed,
        embedded_layers=sql.Literal(sorted(EMBEDDED_LAYERS)),
        preferred_first=preferred_first,
    )


def _name_parameters(names: Names) -> dict[str, object]:
    lower = [name.text.lower() for name in names.names]
    parameters: dict[str, object] = {
        "name_terms": [name.term for name in names.names],
        "lower_names": lower,
        "path_endings": ["%/" + like_pattern(name)[:-1] for name in lower],
        "symbol_endings": ["%." + like_pattern(name)[:-1] for name in lower],
    }
    for number, phrase in enumerate(names.phrases):
        parameters[f"phrase_{number}"] = phrase.text.lower()
        parameters[f"phrase_terms_{number}"] = list(phrase.terms)
    return parameters if names else {}


def files_statement(
    session_id: str, identity: Identity, paths: Sequence[str], *, layers: Sequence[Layer], limit: int
) -> Statement:
    """Every chunk of the files, in the order in which the paths are given, then by layer and place in the file."""
    filter = Filter(layers=tuple(layers))
    return Statement(
        text=_FILES.format(session=_SESSION, allowed=_allowed(filter), columns=_columns()),
        parameters={
            **_session_parameters(session_id, identity),
            **_filter_parameters(filter),
            "paths": list(paths),
            "limit": limit,
        },
    )


def index_statement(session_id: str) -> Statement:
    """The session's index: no row where the caller sees no session."""
    return Statement(text=sql.Composed([_INDEX]), parameters={"session_id": session_id})


def session_statement(session_id: str, identity: Identity) -> Statement:
    """The generation and the embedding model, for a caller who may read the session."""
    return Statement(text=_SESSION_ONLY.format(session=_SESSION), parameters=_session_parameters(session_id, identity))


def sources_statement(session_id: str, identity: Identity, chunk_ids: Sequence[int]) -> Statement:
    """Path, bytes and chunk ids of each file behind the chunks that the caller may read."""
    return Statement(
        text=_SOURCES.format(session=_SESSION, allowed=_allowed(Filter())),
        parameters={**_session_parameters(session_id, identity), "chunk_ids": list(chunk_ids)},
    )


def file_page_statement(session_id: str, identity: Identity, *, after: str, limit: int, most_bytes: int) -> Statement:
    """The next files by path: whether the index has moved, path, hash, bytes; one row without them if none is left."""
    return Statement(
        text=_FILE_PAGE.format(session=_SESSION, allowed=_allowed(Filter())),
        parameters={
            **_session_parameters(session_id, identity),
            "after": after,
            "limit": limit,
            "most_bytes": most_bytes,
        },
    )


def vector_literal(vector: Vector) -> str:
    """The vector as pgvector reads it; float32 survives the way.

    >>> import numpy as np
    >>> vector_literal(np.array([0.5, -0.25], dtype=np.float32))
    '[0.5,-0.25]'
    """
    return f"[{('%.9g,' * len(vector))[:-1] % tuple(vector.tolist())}]"


_IN_SESSION = sql.SQL("(SELECT index_id FROM session) IS NOT NULL")
"""The caller may read the session. Constant, and so looked at once; around a list's LIMIT, where it costs nothing a row."""


def _in_index(row: LiteralString) -> sql.Composable:
    return sql.SQL("{row}.index_id = %(index_id)s::bigint AND {in_session}").format(
        row=sql.SQL(row), in_session=_IN_SESSION
    )


def _in_layers(row: LiteralString, filter: Filter) -> sql.Composable:
    if not filter.layers:
        return sql.SQL("true")
    return sql.SQL("{row}.layer = ANY (%(layers)s::text[])").format(row=sql.SQL(row))


def _readable(row: LiteralString) -> sql.Composable:
    """The row is of the active index, and the caller may read it."""
    return sql.SQL("{in_index} AND {open}").format(in_index=_in_index(row), open=_open(row))


def _open(row: LiteralString) -> sql.Composable:
    return sql.SQL("({row}.acl IS NULL OR {row}.acl && %(principals)s::text[])").format(row=sql.SQL(row))


def _allowed(filter: Filter) -> sql.Composable:
    """What a chunk must meet to be found at all."""
    return sql.SQL("{matching} AND {in_session}").format(matching=_matching(filter), in_session=_IN_SESSION)


def _matching(filter: Filter) -> sql.Composable:
    """The same but for `_IN_SESSION`, which must then stand around the list."""
    conditions = [sql.SQL("chunk.index_id = %(index_id)s::bigint"), _open("chunk"), _in_layers("chunk", filter)]
    if filter.path_prefixes:
        conditions.append(sql.SQL("chunk.path LIKE ANY (%(included)s::text[])"))
    if filter.exclude_path_prefixes or filter.exclude_like_patterns:
        conditions.append(sql.SQL("NOT chunk.path LIKE ANY (%(excluded)s::text[])"))
    return sql.SQL(" AND ").join(conditions)


def _preferences(filter: Filter) -> tuple[sql.Composable, sql.Composable]:
    """The columns of a list's row that depend on its path, and what goes before the score in ORDER BY."""
    preferred = bool(filter.prefer_path_prefixes or filter.prefer_like_patterns)
    columns = sql.SQL("chunk.path, {bonus} AS prefer_bonus, {penalty} AS test_penalty").format(
        bonus=sql.SQL("(chunk.path LIKE ANY (%(preferred)s::text[]))::int") if preferred else sql.SQL("0"),
        penalty=sql.SQL("(chunk.path ~ %(test_path)s)::int") if filter.prefer_non_tests else sql.SQL("0"),
    )
    return columns, sql.SQL("prefer_bonus DESC, test_penalty," if has_preferences(filter) else "")


def _all_preferred(filter: Filter) -> sql.Composable:
    """Whether all rows of a list are of the kind that comes first."""
    preferred = bool(filter.prefer_path_prefixes or filter.prefer_like_patterns)
    if not has_preferences(filter):
        return sql.SQL("true")
    return sql.SQL("min(prefer_bonus) = {best} AND max(test_penalty) = 0").format(best=sql.Literal(int(preferred)))


def _session_parameters(session_id: str, identity: Identity) -> dict[str, object]:
    return {
        "session_id": session_id,
        "tenant": identity.tenant,
        "principals": list(identity.principals),
        "index_id": NO_INDEX,
        "embedding_model": None,
        "dimension": None,
    }


def _filter_parameters(filter: Filter) -> dict[str, object]:
    return {
        "layers": [layer.value for layer in filter.layers],
        "included": [like_pattern(prefix) for prefix in filter.path_prefixes],
        "excluded": [*map(like_pattern, filter.exclude_path_prefixes), *filter.exclude_like_patterns],
        "preferred": [*map(like_pattern, filter.prefer_path_prefixes), *filter.prefer_like_patterns],
        "test_path": TEST_PATH,
    }


def _columns() -> sql.Composable:
    names = [*(("session", name) for name in SESSION_COLUMNS), *(("found", name) for name in CANDIDATE_COLUMNS)]
    return sql.SQL(", ").join(sql.Identifier(*name) for name in names)
