"""An embedder's answer is refused unless it is what was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from strata.errors import EmbedderRejected
from strata.model.corpus import Vectors
from strata.providers.vectors import checked_vectors


def unit_vectors() -> Vectors:
    return np.eye(3, 4, dtype=np.float32)


def test_good_vectors_come_back_as_they_are() -> None:
    vectors = unit_vectors()
    assert checked_vectors(vectors, texts=3, dimension=4) is vectors


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(0.0, id="zero"),
        pytest.param(0.5, id="not of unit length"),
        pytest.param(np.nan, id="not a number"),
        pytest.param(np.inf, id="infinite"),
    ],
)
def test_one_wrong_vector_is_named(value: float) -> None:
    vectors = unit_vectors()
    vectors[1] *= 0
    vectors[1, 1] = value
    with pytest.raises(EmbedderRejected, match=r"1 of 3 texts \(the first is number 2"):
        checked_vectors(vectors, texts=3, dimension=4)


@pytest.mark.parametrize(("texts", "dimension"), [(2, 4), (3, 5)])
def test_a_wrong_count_or_dimension_is_refused(texts: int, dimension: int) -> None:
    with pytest.raises(EmbedderRejected, match="shape"):
        checked_vectors(unit_vectors(), texts=texts, dimension=dimension)
