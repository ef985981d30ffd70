"""Whether two systems differ on the same queries, or only by the luck of the draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SAMPLES = 10_000
CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The mean of (other - baseline) over the queries; with 95 % confidence it lies between `low` and `high`."""

    mean: float
    low: float
    high: float


def paired_bootstrap(baseline: Sequence[float], other: Sequence[float], *, seed: int = 0) -> Difference:
    """Draw the queries again, with replacement, 10,000 times; both systems are looked at on the same draw.

    The two sequences hold one score a query, in the same order. The same seed gives the same bounds.

    >>> paired_bootstrap([0.5, 0.5, 1.0], [0.5, 0.5, 1.0])
    Difference(mean=0.0, low=0.0, high=0.0)
    """
    if len(baseline) != len(other) or not baseline:
        raise ValueError(f"Scores of the same queries are compared, not {len(baseline)} with {len(other)}.")
    differences = np.asarray(other, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    draws = np.random.default_rng(seed)
    means = np.concatenate(
        [
            differences[draws.integers(0, len(differences), size=(CHUNK, len(differences)))].mean(axis=1)
            for _ in range(SAMPLES // CHUNK)
        ]
    )
    low, high = np.quantile(means, [0.025, 0.975])
    return Difference(mean=float(differences.mean()), low=float(low), high=float(high))
