"""The vector that a question and its expansion are searched by."""

from __future__ import annotations

import numpy as np
import pytest

from strata.retrieval.vectors import middle_of


def test_the_middle_has_length_one_and_lies_between() -> None:
    one, other = np.array([1, 0, 0], dtype=np.float32), np.array([0, 1, 0], dtype=np.float32)
    middle = middle_of([one, other])
    assert middle.dtype == np.float32
    assert middle.tolist() == pytest.approx([0.5**0.5, 0.5**0.5, 0.0])


def test_of_opposite_vectors_the_question_s_own_is_left() -> None:
    own = np.array([0.6, 0.8], dtype=np.float32)
    assert middle_of([own, -own]).tolist() == own.tolist()
