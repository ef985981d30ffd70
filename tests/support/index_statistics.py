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
CHUNKS = "SELECT index_id, chunk_id, layer, path, acl FROM {} ORDER BY 2"


def assert_rows_agree(owner_url: str) -> int:
    """Check the three chunk tables against each other and the statistics against the rows; the number of chunks."""
    with psycopg.connect(owner_url) as connection:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return connection.execute(query.encode()).fetchall()

        chunks = rows(CHUNKS.format("rag_chunks"))
        assert rows(CHUNKS.format("rag_chunk_vectors")) == [row for row in chunks if row[2] in EMBEDDED_LAYERS]
        assert rows(CHUNKS.format("rag_chunk_terms")) == chunks
        assert rows(KEPT_LAYERS) == rows(COUNTED_LAYERS)
        assert rows(KEPT_TERMS) == rows(COUNTED_TERMS)
        assert rows("SELECT FROM rag_chunk_terms WHERE term_keys[1] >> 32 <> index_id") == []
        return len(chunks)
