"""The statistics of an index, counted anew from its rows, to hold against what the commits have kept."""

from __future__ import annotations

from typing import Any

import psycopg

from strata.model.corpus import EMBEDDED_LAYERS

COUNTED_LAYERS = """
    SELECT index_id, layer, count(*) FROM rag_chunk_terms GROUP BY 1, 2 ORDER BY 1, 2
"""
KEPT_LAYERS = """
    SELECT index_id, layer, chunk_count FROM rag_index_layers WHERE chunk_count > 0 ORDER BY 1, 2
"""
COUNTED_TERMS = """
    SELECT index_id, layer, (key & 4294967295)::int, count(*)::int
    FROM rag_chunk_terms, unnest(term_keys) AS key GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
KEPT_TERMS = """
    SELECT index_id, layer, term_id, document_frequency FROM rag_index_terms ORDER BY 1, 2, 3
"""
CACHED_IDS, CACHED_COUNTS = (
    f"""ARRAY(
        SELECT ('x' || encode(substr(terms, 8 * place + {first}, 4), 'hex'))::bit(32)::int
        FROM generate_series(0, length(terms) / 8 - 1) AS place ORDER BY place
    )"""
    for first in (1, 5)
)
"""The terms of a row of the cache, and their counts, in its order."""
WRONG_WEIGHTS = f"""
    SELECT r.index_id, r.path, r.layer, r.ordinal
    FROM rag_chunk_terms AS t
    JOIN rag_chunks AS r USING (index_id, chunk_id)
    JOIN rag_chunk_cache AS c ON (c.blob_id, c.layer, c.ordinal) = (r.blob_id, r.layer, r.ordinal)
    JOIN rag_index_layers AS l ON (l.index_id, l.layer) = (r.index_id, r.layer)
    WHERE t.weights::text IS DISTINCT FROM (
        SELECT concat('{{', string_agg(
            w.term_id || ':' || strata_weight(w.term_count, c.length, l.pinned_average_length), ',' ORDER BY w.term_id
        ), '}}/1000000000')
        FROM unnest({CACHED_IDS}, {CACHED_COUNTS}) AS w (term_id, term_count)
    )
"""
TOO_LOW_BOUNDS = """
    SELECT t.index_id, t.layer, w.term_id
    FROM rag_chunk_terms AS t
    CROSS JOIN LATERAL (
        SELECT split_part(pair, ':', 1)::int AS term_id, split_part(pair, ':', 2)::real AS weight
        FROM unnest(string_to_array(split_part(ltrim(t.weights::text, '{'), '}', 1), ',')) AS pair
    ) AS w
    JOIN rag_index_terms AS i ON (i.index_id, i.layer, i.term_id) = (t.index_id, t.layer, w.term_id)
    WHERE i.greatest_weight < w.weight
"""
CHUNKS = "SELECT index_id, chunk_id, layer, path, acl FROM {} ORDER BY 2"


def assert_rows_agree(owner_url: str) -> int:
    """Check the three chunk tables against each other, weights against the cache and the statistics against the rows.

    The number of chunks.
    """
    with psycopg.connect(owner_url) as connection:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return connection.execute(query.encode()).fetchall()

        chunks = rows(CHUNKS.format("rag_chunks"))
        assert rows(CHUNKS.format("rag_chunk_vectors")) == [row for row in chunks if row[2] in EMBEDDED_LAYERS]
        assert rows(CHUNKS.format("rag_chunk_terms")) == chunks
        assert rows(KEPT_LAYERS) == rows(COUNTED_LAYERS)
        assert rows(KEPT_TERMS) == rows(COUNTED_TERMS)
        assert rows("SELECT FROM rag_chunk_terms WHERE term_keys[1] >> 32 <> index_id") == []
        assert rows(WRONG_WEIGHTS) == []
        assert rows(TOO_LOW_BOUNDS) == []
        return len(chunks)
