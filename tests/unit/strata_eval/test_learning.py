"""Weights are learnt from what tells right rows from wrong ones, and from nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from strata.retrieval.features import FEATURES
from strata_eval.learning import SIGNED, Lesson, Pack, learn

RANDOM = np.random.default_rng(0)


def lessons(count: int = 40, *, telling: str, sign: float = 1.0) -> list[Lesson]:
    """Of five files the first is right: one field is higher (or lower) there, the others are noise."""
    made = []
    for _ in range(count):
        fields = RANDOM.random((5, len(FEATURES)))
        fields[0, FEATURES.index(telling)] += sign
        right = np.array([True, False, False, False, False])
        made.append(
            Lesson(fields=fields, files=tuple("abcde"), right_file=right, right_row=np.zeros(5, dtype=np.bool_))
        )
    return made


@pytest.mark.parametrize("telling", ["cosine", "near_unclear", "file_words"])
def test_the_field_that_tells_gets_the_most_weight(telling: str) -> None:
    weights = learn([Pack(lessons(telling=telling))])
    assert max(weights, key=lambda name: weights[name]) == telling
    assert all(value >= 0 for name, value in weights.items() if name not in SIGNED)


def test_evidence_never_counts_against_a_row_but_a_signed_field_may() -> None:
    assert learn([Pack(lessons(telling="near_unclear", sign=-1.0))])["near_unclear"] == 0
    assert learn([Pack(lessons(telling="prose_for_code", sign=-1.0))])["prose_for_code"] < -1


def test_a_pack_counts_by_its_share_and_not_by_its_questions() -> None:
    many, few = lessons(200, telling="near_unclear"), lessons(20, telling="bm25")
    weights = learn([Pack(many), Pack(few)])
    less = learn([Pack(many, share=0.1), Pack(few)])
    assert less["near_unclear"] / less["bm25"] < weights["near_unclear"] / weights["bm25"]


def test_the_loss_at_the_weights_is_least() -> None:
    pack = Pack(lessons(telling="near_unclear"))
    weights = np.array(list(learn([pack]).values()))
    loss = pack.slope(weights).loss
    for number in np.flatnonzero(weights):
        for step in (-0.5, 0.5):
            moved = weights.copy()
            moved[number] += step
            assert pack.slope(moved).loss > loss - 1e-3


def test_without_anything_to_learn_the_weights_stay_small() -> None:
    assert learn([]).keys() == set(FEATURES)
    assert learn([Pack([])]) == learn([])
