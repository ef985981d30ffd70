"""Several vectors → one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strata.model.corpus import Vector

_LEAST_LENGTH = 1e-3
"""Of vectors that point away from each other nothing is left in the middle."""


def middle_of(vectors: Sequence[Vector]) -> Vector:
    """The mean of unit vectors (each float32, shape (d,)) brought to length 1; the first where they cancel out."""
    middle: Vector = np.stack(vectors).mean(axis=0, dtype=np.float32)
    length = float(np.linalg.norm(middle))
    return vectors[0] if length < _LEAST_LENGTH else middle / np.float32(length)
