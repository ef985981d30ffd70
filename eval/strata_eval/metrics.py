"""How good a ranking is, one query at a time. `ranking` is best first; what is relevant counts once and alike."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence


def hit(ranking: Sequence[str], relevant: Collection[str], *, k: int = 10) -> float:
    """1 if any of the first `k` is relevant, else 0.

    >>> hit(["a", "b"], {"b"}), hit(["a", "b"], {"b"}, k=1)
    (1.0, 0.0)
    """
    return float(any(found in relevant for found in ranking[:k]))


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str], *, k: int = 10) -> float:
    """One over the rank of the first relevant one among the first `k`, else 0; its mean is MRR@k.

    >>> reciprocal_rank(["a", "b"], {"b"})
    0.5
    """
    return next((1.0 / rank for rank, found in enumerate(ranking[:k], start=1) if found in relevant), 0.0)


def ndcg(ranking: Sequence[str], relevant: Collection[str], *, k: int = 10) -> float:
    """Gain 1 over log2(rank + 1) for each relevant one among the first `k`, over the best that any ranking could have.

    >>> round(ndcg(["a", "b", "c"], {"a", "c"}), 4)
    0.9197
    """
    gain = sum(1.0 / math.log2(rank + 1) for rank, found in enumerate(ranking[:k], start=1) if found in relevant)
    best = sum(1.0 / math.log2(rank + 1) for rank in range(1, min(len(relevant), k) + 1))
    return gain / best


def precision(ranking: Sequence[str], relevant: Collection[str], *, k: int = 5) -> float:
    """The share of `k` places that hold something relevant; an empty place counts as wrong.

    With one relevant document the ceiling is 1 / `k`.

    >>> precision(["a", "b"], {"a"})
    0.2
    """
    return sum(found in relevant for found in ranking[:k]) / k
