"""Statistics counted from packed weights against a count by hand."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.storage.postgres import copying, statistics

CHUNKS = st.lists(
    st.dictionaries(st.integers(1, 30), st.floats(0.0009765625, 2.1875, width=32), max_size=12).map(
        lambda d: dict(sorted(d.items()))
    ),
    max_size=25,
)


def sent(chunks: list[dict[int, float]]) -> list[bytes]:
    """As pgvector sends them: what COPY takes, without the field's length."""
    terms = np.array([term for chunk in chunks for term in chunk], dtype=np.int64)
    values = np.array([value for chunk in chunks for value in chunk.values()], dtype=np.float32)
    return [field[4:] for field in copying.sparsevecs(terms, values, 1_000_000_000, list(map(len, chunks)))]


@pytest.mark.parametrize("sorted_bytes", [1, 200, 1_000_000], ids=["each chunk", "a few chunks", "all at once"])
@given(chunks=CHUNKS)
def test_each_term_is_counted_once_with_its_greatest_weight(chunks: list[dict[int, float]], sorted_bytes: int) -> None:
    held: dict[int, list[float]] = defaultdict(list)
    for chunk in chunks:
        for term, value in chunk.items():
            held[term].append(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "SORTED_BYTES", sorted_bytes)
        counted = statistics.counted(sent(chunks))
    assert list(zip(*(column.tolist() for column in counted), strict=True)) == [
        (term, len(values), max(values)) for term, values in sorted(held.items())
    ]


def test_of_many_chunks_only_their_terms_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is merged stays in proportion to the distinct terms, whatever the number of chunks."""
    monkeypatch.setattr(statistics, "SORTED_BYTES", 1)
    most = 0
    merged = statistics._merged

    def watched(parts: list[statistics.Statistics]) -> statistics.Statistics:
        nonlocal most
        most = max(most, sum(len(part.term_ids) for part in parts))
        return merged(parts)

    monkeypatch.setattr(statistics, "_merged", watched)
    counted = statistics.counted(iter(sent([dict.fromkeys(range(1, 11), 1.0)] * 500)))
    assert counted.frequencies.tolist() == [500] * 10
    assert most <= 20
