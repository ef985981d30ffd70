"""Rows of one file pay for those of it that stand above them.

Ten rows should answer from the file that is right and still show others, in case it is not. A fixed share for a file
does one or the other. The reranker's scores are logarithms of odds, so a row can pay in the same coin: a file that is
far ahead fills the page, one among equals shows a row or two. The best row of each file pays nothing, so the order of
the files stays as it is, and the order of the rows does not depend on how many are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from strata.model.asking import Candidate
from strata.retrieval.diversity import preference, shows_the_same

PRICE = 1.0
"""What the second row of a file pays; the fourth pays twice as much, the eighth thrice."""

_Key = tuple[tuple[int, int], str]
"""A kind of rows, by what the caller prefers, and a file."""


def spread(rows: Sequence[Candidate], scores: Sequence[float]) -> list[tuple[int, float]]:
    """The rows' numbers, best first, each with the doublings of its file's rows that it pays for, `PRICE` for each.

    What a caller prefers stays in front and pays for its own kind alone; ties keep the order in which they came. A row
    that shows the same as a better one gives way later on, so the rows below it do not pay for it.
    """
    keys = [(preference(row), row.path) for row in rows]
    left: dict[_Key, list[int]] = {}
    for number in sorted(range(len(rows)), key=lambda number: (scores[number], -number)):
        left.setdefault(keys[number], []).append(number)
    above: dict[_Key, list[Candidate]] = {key: [] for key in left}
    waiting = [(key[0], -scores[numbers[-1]], numbers.pop()) for key, numbers in left.items()]
    heapify(waiting)
    ordered: list[tuple[int, float]] = []
    while waiting:
        number = heappop(waiting)[-1]
        key, row = keys[number], rows[number]
        ordered.append((number, math.log2(1 + len(above[key]))))
        if not any(shows_the_same(row, better) for better in above[key]):
            above[key].append(row)
        if left[key]:
            following = left[key].pop()
            paid = scores[following] - PRICE * math.log2(1 + len(above[key]))
            heappush(waiting, (key[0], -paid, following))
    return ordered
