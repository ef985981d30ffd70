"""Reciprocal rank fusion: only ranks go in, so the lists' scores need no common scale."""

from __future__ import annotations

from collections.abc import Sequence

RANK_CONSTANT = 60
"""The usual k: a first place is worth about 1.15 tenth places."""


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[int]], *, weights: Sequence[float] | None = None, k: int = RANK_CONSTANT
) -> list[tuple[int, float]]:
    """Merge rankings of chunk ids into one, best first: the twin of the fusion in the search statement.

    A chunk scores the sum of ``weight / (k + rank)`` over the rankings that hold it; ranks start at 1, a ranking
    without the chunk adds nothing, weights are 1 where none are given. Scores compare only within one call. Ties are
    broken by chunk id, so the order is the same on every run. Raises `ValueError` for a chunk that stands twice in
    one ranking, and when the numbers of weights and rankings differ.

    >>> [chunk_id for chunk_id, _ in reciprocal_rank_fusion([[1, 2], [2, 3]])]
    [2, 1, 3]
    """
    scores: dict[int, float] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        if len(set(ranking)) != len(ranking):
            raise ValueError("a chunk stands twice in one ranking")
        for rank, chunk_id in enumerate(ranking, start=1):
            scores[chunk_id] = scores.get(chunk_id, 0.0) + weight / (k + rank)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
