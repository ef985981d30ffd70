"""BM25: its constants, its parts, and a plain scorer that the SQL must agree with.

A chunk's weight of a term does not depend on the query, so it is computed once, when the chunk is stored; the query
brings the idf. The score is the sum of weight times idf over the distinct terms of the query, `LEADING_WEIGHT` times
that for those that lead it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

K1 = 1.2
"""How soon repetitions of a term stop to count: a weight never exceeds K1 + 1."""
B = 0.75
"""How much a chunk's length counts: 0 not at all, 1 in full."""

LEADING_WEIGHT = 3.0
"""What a term of a long question's first line counts: a report's title says what it is about, the rest what happened.
Of whole tickets BM25 alone finds 0.631 (nDCG@10) with 1, 0.709 with 2, 0.731 with 3."""


def weight(occurrences: int, length: int, average_length: float) -> float:
    """What a term that occurs so often weighs in a chunk of `length` terms, repetitions counted.

    >>> weight(1, 100, 100.0)
    1.0
    """
    return occurrences * (K1 + 1) / (occurrences + K1 * (1 - B + B * length / average_length))


def idf(chunks: int, chunks_with_term: int) -> float:
    """How rare a term is; always above 0, also for a term that stands everywhere.

    >>> round(idf(1000, 1), 3), round(idf(1000, 1000), 5)
    (6.503, 0.0005)
    """
    return math.log(1 + (chunks - chunks_with_term + 0.5) / (chunks_with_term + 0.5))


def scores(
    query_terms: Sequence[str],
    chunks: Mapping[int, Mapping[str, int]],
    average_lengths: Mapping[int, float],
    leading: Collection[str] = (),
) -> list[tuple[int, float]]:
    """Chunk id and score of every chunk that holds a query term, best first, ties by id.

    `chunks` maps a chunk's id to its term counts, `average_lengths` to the average that its layer was pinned to. All
    chunks count for idf; leave out those that the search does not cover.
    """
    distinct = set(query_terms)
    frequencies = {term: sum(term in counts for counts in chunks.values()) for term in distinct}
    rarity = {
        term: idf(len(chunks), frequency) * (LEADING_WEIGHT if term in leading else 1.0)
        for term, frequency in frequencies.items()
    }
    found: dict[int, float] = {}
    for chunk_id, counts in chunks.items():
        length = sum(counts.values())
        parts = [
            weight(counts[term], length, average_lengths[chunk_id]) * rarity[term]
            for term in sorted(distinct & counts.keys())
        ]
        if parts:
            found[chunk_id] = math.fsum(parts)
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))
