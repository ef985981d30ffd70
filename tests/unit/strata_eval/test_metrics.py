"""Metrics on rankings whose scores are known by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_eval.metrics import hit, ndcg, precision, reciprocal_rank

RANKING = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]


@pytest.mark.parametrize(
    ("relevant", "expected_hit", "expected_rank", "expected_ndcg", "expected_precision"),
    [
        pytest.param({"a"}, 1.0, 1.0, 1.0, 0.2, id="the first one"),
        pytest.param({"j"}, 1.0, 0.1, 1 / math.log2(11), 0.0, id="the last that counts"),
        pytest.param({"k"}, 0.0, 0.0, 0.0, 0.0, id="one after the last that counts"),
        pytest.param({"z"}, 0.0, 0.0, 0.0, 0.0, id="not found"),
        pytest.param({"a", "b"}, 1.0, 1.0, 1.0, 0.4, id="both at the top"),
        pytest.param({"b", "z"}, 1.0, 0.5, (1 / math.log2(3)) / (1 + 1 / math.log2(3)), 0.2, id="one of two is found"),
    ],
)
def test_scores_of_one_ranking(
    relevant: set[str], expected_hit: float, expected_rank: float, expected_ndcg: float, expected_precision: float
) -> None:
    assert hit(RANKING, relevant) == expected_hit
    assert reciprocal_rank(RANKING, relevant) == expected_rank
    assert ndcg(RANKING, relevant) == pytest.approx(expected_ndcg)
    assert precision(RANKING, relevant) == pytest.approx(expected_precision)


def test_an_empty_ranking_scores_nothing() -> None:
    assert [measure([], {"a"}) for measure in (hit, reciprocal_rank, ndcg, precision)] == [0, 0, 0, 0]


@given(st.permutations(RANKING), st.sets(st.sampled_from(RANKING), min_size=1))
def test_scores_lie_between_nothing_and_the_best_ranking(ranking: list[str], relevant: set[str]) -> None:
    best = sorted(ranking, key=lambda path: path not in relevant)
    assert ndcg(best, relevant) == pytest.approx(1.0)
    for measure in (hit, reciprocal_rank, ndcg, precision):
        assert 0.0 <= measure(ranking, relevant) <= measure(best, relevant) + 1e-12
