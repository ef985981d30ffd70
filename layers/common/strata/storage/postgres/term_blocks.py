"""Postings of frequent words in blocks: what a search adds up instead of reading each row that holds a word.

A row's weights never change and its number is never given again, so blocks stay true whatever is committed after them:
rows that are gone are not found by their number, and rows that came later have greater ones. Those are looked at each
by itself; when they have become many, the blocks are made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from psycopg.rows import namedtuple_row

from strata.retrieval.filters import DEFAULT_LAYERS
from strata.retrieval.statements import lexical
from strata.storage.postgres import copying
from strata.storage.postgres.connection import Connection
from strata.storage.postgres.queries import queries

LEAST_ROWS = lexical.SMALL_ROWS
"""Of so few rows each is scored in any case."""
FREQUENT_SHARE = 1 / 400
"""A word of more of the index's rows has blocks; the rows of a rarer one are few enough to be read."""
FREQUENT_ROWS = 16
OUTSIDE_SHARE, OUTSIDE_ROWS = 1 / 20, 1_000
"""Blocks are made anew when more rows have no place in them than this share and this number."""
BLOCKS_AT_ONCE = 15
"""Of some 14,000 rows; with 28,000 rows of nine layers to read, the process grew by 27 MB."""
_HEAD_BYTES = 12
"""Of a sparsevec, before its places; see `statistics`."""

Numbers = NDArray[np.int64]


class _Words(NamedTuple):
    """Frequent words, ascending, and their idf."""

    terms: Numbers
    idf: NDArray[np.float32]


def build(connection: Connection, index_id: int) -> bool:
    """Make the blocks of an index, in the caller's transaction, if it has become large enough for new ones."""
    sql = queries("term_blocks")
    index = {"index_id": index_id}
    held = connection.execute(sql["hold"], index).fetchone()
    if held is None or held[1] <= LEAST_ROWS:
        return False
    upto, chunks = held
    most = max(OUTSIDE_ROWS, int(OUTSIDE_SHARE * chunks))
    if upto is not None:
        (outside,) = connection.execute(sql["outside"], {**index, "upto": upto, "most": most}).fetchone() or (0,)
        if outside < most:
            return False
    frequent = {
        **index,
        "frequent": max(FREQUENT_ROWS, int(FREQUENT_SHARE * chunks)),
        "layers": [layer.value for layer in DEFAULT_LAYERS],
    }
    found = connection.execute(sql["frequent_terms"], frequent).fetchall()
    words = _Words(
        np.array([term_id for term_id, _ in found], dtype=np.int64), np.array([idf for _, idf in found], np.float32)
    )
    connection.execute(sql["forget_terms"], index)
    connection.execute(sql["forget_rows"], index)
    after, block = 0, 0
    while rows := _rows(connection, index_id, after):
        after = rows[-1].chunk_id
        block = _write(connection, index_id, rows, words, block)
    connection.execute(sql["finish"], {**index, "upto": after})
    return True


def _rows(connection: Connection, index_id: int, after: int) -> list[Any]:
    parameters = {"index_id": index_id, "after": after, "rows": BLOCKS_AT_ONCE * lexical.BLOCK_ROWS}
    with connection.cursor(binary=True, row_factory=namedtuple_row) as cursor:
        return cursor.execute(queries("term_blocks")["rows"], parameters).fetchall()


def _write(connection: Connection, index_id: int, rows: Sequence[Any], words: _Words, block: int) -> int:
    """Write some rows as blocks from this number on; the next number."""
    sql = queries("term_blocks")
    for layer in sorted({row.layer for row in rows}):
        of_layer = [row for row in rows if row.layer == layer]
        with connection.cursor().copy(sql["copy_rows"]) as copy:
            copy.write(b"".join(_places(index_id, [row.chunk_id for row in of_layer], block)))
        with connection.cursor().copy(sql["copy_terms"]) as copy:
            for part in _postings(index_id, layer, [row.weights for row in of_layer], words, block):
                copy.write(part)
        block += -(-len(of_layer) // lexical.BLOCK_ROWS)
    return block


def _places(index_id: int, chunk_ids: Sequence[int], block: int) -> Iterator[bytes]:
    """The rows of `rag_block_rows` for COPY."""
    sizes = [
        len(chunk_ids[start : start + lexical.BLOCK_ROWS]) for start in range(0, len(chunk_ids), lexical.BLOCK_ROWS)
    ]
    yield copying.HEADER
    for number, array in enumerate(copying.int8_arrays(np.array(chunk_ids, dtype=np.int64), sizes)):
        yield copying.row((copying.int8(index_id), copying.int4(block + number), array))
    yield copying.TRAILER


def _postings(index_id: int, layer: str, weights: Sequence[bytes], words: _Words, block: int) -> Iterator[bytes]:
    """The rows of `rag_term_blocks` for COPY, of rows whose weights come as pgvector sends a sparsevec."""
    word, row, weight = _of_terms(weights, words.terms)
    order = np.lexsort((row, word))
    word, row = word[order], row[order]
    term, idf = words.terms[word], words.idf[word]
    number = block + row // lexical.BLOCK_ROWS
    starts = np.flatnonzero(np.append(True, (np.diff(term) != 0) | (np.diff(number) != 0))[: len(term)])
    sizes = np.diff(np.append(starts, len(term))).tolist()
    index, of_layer = copying.int8(index_id), copying.text(layer)
    vectors = copying.sparsevecs(row % lexical.BLOCK_ROWS + 1, weight[order] * idf, lexical.BLOCK_ROWS, sizes)
    yield copying.HEADER
    yield b"".join(
        copying.row((index, copying.int4(one), of_layer, copying.int4(of_block), vector, copying.float4(of_term)))
        for one, of_block, vector, of_term in zip(
            term[starts].tolist(), number[starts].tolist(), vectors, idf[starts].tolist(), strict=True
        )
    )
    yield copying.TRAILER


def _of_terms(weights: Sequence[bytes], terms: Numbers) -> tuple[Numbers, Numbers, NDArray[np.float32]]:
    """Of each posting of one of these words: the places of the word and of the row, and the weight."""
    sizes = np.array([(len(row) - _HEAD_BYTES) // 8 for row in weights], dtype=np.int64)
    flat = np.frombuffer(b"".join([row[_HEAD_BYTES:] for row in weights]), dtype=">u4")
    is_weight = np.repeat(np.arange(2 * len(sizes)) % 2 == 1, np.repeat(sizes, 2))
    term = flat[~is_weight].astype(np.int64) + 1  # counted from 0 on the way
    word = np.searchsorted(terms, term)
    frequent = np.append(terms, -1)[word] == term
    row = np.repeat(np.arange(len(sizes)), sizes)[frequent]
    return word[frequent], row, flat[is_weight][frequent].astype(np.uint32).view(np.float32)
