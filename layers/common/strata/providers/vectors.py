"""What every embedder's answer must be before anything is stored or compared."""

from __future__ import annotations

import numpy as np

from strata.errors import EmbedderRejected
from strata.model.corpus import Vectors

LENGTH_TOLERANCE = 1e-3


def checked_vectors(vectors: Vectors, *, texts: int, dimension: int) -> Vectors:
    """The vectors as they came; raises `EmbedderRejected` unless they are `texts` finite unit vectors."""
    if vectors.shape != (texts, dimension):
        raise EmbedderRejected(
            f"The embedder answered with shape {vectors.shape} to {texts} texts; the model has {dimension} dimensions."
        )
    lengths = np.linalg.norm(vectors, axis=1)
    # A length that is not finite compares as False, so it counts as wrong.
    wrong = np.flatnonzero(~(np.abs(lengths - 1.0) <= LENGTH_TOLERANCE))
    if wrong.size:
        raise EmbedderRejected(
            f"The embedder answered with something that is no unit vector to {wrong.size} of {texts} texts "
            f"(the first is number {wrong[0] + 1}, of length {lengths[wrong[0]]:.4g})."
        )
    return vectors
