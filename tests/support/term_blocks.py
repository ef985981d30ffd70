"""Blocks of frequent words in indexes of a test's size."""

from __future__ import annotations

import psycopg
import pytest

from strata.retrieval.statements import lexical, search
from strata.storage.postgres import term_blocks
from tests.support.postgres import TestDatabase

ROWS_IN_A_BLOCK = 32


def make_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first commit makes blocks, of words in more than two rows; a later one does when forty rows have no place.

    Few enough rows are written and sent at once that the parts of an index meet.
    """
    monkeypatch.setattr(lexical, "BLOCK_ROWS", ROWS_IN_A_BLOCK)
    monkeypatch.setattr(term_blocks, "BLOCKS_AT_ONCE", 2)
    monkeypatch.setattr(term_blocks, "LEAST_ROWS", 0)
    monkeypatch.setattr(term_blocks, "FREQUENT_ROWS", 2)
    monkeypatch.setattr(term_blocks, "FREQUENT_SHARE", 0.0)
    monkeypatch.setattr(term_blocks, "OUTSIDE_ROWS", 40)
    monkeypatch.setattr(term_blocks, "OUTSIDE_SHARE", 0.0)
    monkeypatch.setattr(search, "_search_text", search._search_text.__wrapped__)


def use_blocks(database: TestDatabase, used: bool) -> None:
    """Let searches find the blocks that every index has, or none of them."""
    with psycopg.connect(database.owner_url) as connection:
        connection.execute(
            "UPDATE rag_indexes AS i SET blocks_upto = CASE WHEN %s THEN (SELECT max(chunk_id)"
            " FROM rag_block_rows AS b, unnest(b.chunk_ids) AS chunk_id WHERE b.index_id = i.index_id) END",
            [used],
        )


def rows_with_a_place(database: TestDatabase) -> tuple[int, int]:
    """How many rows of all indexes have a place in a block, and how many have none."""
    with psycopg.connect(database.owner_url) as connection:
        found = connection.execute(
            "SELECT count(*) FILTER (WHERE t.chunk_id <= i.blocks_upto),"
            " count(*) FILTER (WHERE t.chunk_id > i.blocks_upto)"
            " FROM rag_chunk_terms AS t JOIN rag_indexes AS i USING (index_id)"
        ).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])
