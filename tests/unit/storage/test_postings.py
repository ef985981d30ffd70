"""Postings as COPY takes them: keys, weights, rights."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np

from strata.retrieval.bm25 import weight
from strata.storage.postgres import copying, postings


def chunk(number: int, counts: dict[int, int], acl: bytes | None = None) -> SimpleNamespace:
    ids, occurrences = (np.array(list(values), dtype=np.int64) for values in (counts.keys(), counts.values()))
    return SimpleNamespace(
        chunk_id=number,
        layer="C0_SOURCE_CHUNKS",
        path="кот.py",
        acl=acl,
        length=sum(counts.values()),
        average_length=7.5,
        terms=next(copying.byte_pairs(ids, occurrences, [len(counts)]))[4:],
    )


def fields(packed: bytes) -> Iterator[list[bytes | None]]:
    """The fields of each row."""
    place = len(copying.HEADER)
    while (count := struct.unpack_from(">h", packed, place)[0]) != -1:
        place += 2
        row: list[bytes | None] = []
        for _ in range(count):
            (length,) = struct.unpack_from(">i", packed, place)
            place += 4
            row.append(None if length < 0 else packed[place : place + length])
            place += max(length, 0)
        yield row


def test_a_row_has_the_terms_of_its_chunk_with_the_weights_of_bm25() -> None:
    given = {8: {3: 1, 900_000_000: 12}, 9: {}, 10: {1: 2, 3: 4, 5: 6}}
    packed = b"".join(postings.rows(77, [chunk(number, counts) for number, counts in given.items()]))
    rows = list(fields(packed))
    assert [struct.unpack(">q", row[1] or b"") for row in rows] == [(8,), (9,), (10,)]
    for row, counts in zip(rows, given.values(), strict=True):
        assert row[:1] + row[2:5] == [struct.pack(">q", 77), b"C0_SOURCE_CHUNKS", "кот.py".encode(), None]
        keys, sparse = row[5] or b"", row[6] or b""
        assert [key for _, key in struct.iter_unpack(">iq", keys[20:])] == [(77 << 32) | term for term in counts]
        dimension, elements, _ = struct.unpack_from(">iii", sparse)
        assert (dimension, elements) == (1_000_000_000, len(counts))
        places = np.frombuffer(sparse[12 : 12 + 4 * elements], dtype=">i4")
        assert (places + 1).tolist() == list(counts)
        length = sum(counts.values())
        expected = np.array([weight(count, length, 7.5) for count in counts.values()], dtype=np.float32)
        assert np.frombuffer(sparse[12 + 4 * elements :], dtype=">f4").tolist() == expected.tolist()


def test_a_list_of_readers_is_passed_on_as_it_is() -> None:
    (row,) = fields(b"".join(postings.rows(1, [chunk(1, {1: 1}, acl=b"as it is")])))
    assert row[4] == b"as it is"
