"""What every reranker's answer must be before rows are ordered by it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from strata.errors import RerankerRejected


def scores_by_index(results: Iterable[tuple[Any, Any]], count: int) -> list[float]:
    """Pairs of a passage's number and its score → the scores in the order of the passages.

    Raises `RerankerRejected` unless each passage has exactly one finite score.

    >>> scores_by_index([(1, 0.9), (0, 0.1)], 2)
    [0.1, 0.9]
    """
    scores: dict[int, float] = {}
    for index, score in results:
        if type(index) is not int or not 0 <= index < count or index in scores:
            raise RerankerRejected(f"The reranker names passage {str(index)[:20]!r} of {count}, or names it twice.")
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise RerankerRejected("The reranker answered with something that is no finite score.")
        scores[index] = float(score)
    if len(scores) != count:
        raise RerankerRejected(f"The reranker scored {len(scores)} of {count} passages.")
    return [scores[index] for index in range(count)]
