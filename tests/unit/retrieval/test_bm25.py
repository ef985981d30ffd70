from __future__ import annotations

import math

import pytest

from strata.retrieval.bm25 import K1, LEADING_WEIGHT, B, idf, scores, weight


def test_weight_grows_with_repetition_up_to_a_bound_and_falls_with_length() -> None:
    weights = [weight(count, 100, 100.0) for count in (1, 2, 10, 100_000)]
    assert weights == sorted(weights)
    assert weights[-1] == pytest.approx(K1 + 1, rel=1e-3)
    assert weight(1, 50, 100.0) > weight(1, 100, 100.0) > weight(1, 400, 100.0)


def test_weight_is_the_published_formula() -> None:
    assert weight(3, 80, 120.0) == pytest.approx(3 * 2.2 / (3 + 1.2 * (0.25 + 0.75 * 80 / 120)))
    assert (K1, B) == (1.2, 0.75)


@pytest.mark.parametrize(("chunks", "holding"), [(1, 1), (10, 10), (1_000_000, 1), (1_000_000, 1_000_000)])
def test_idf_is_positive(chunks: int, holding: int) -> None:
    assert idf(chunks, holding) > 0


def test_score_is_the_sum_over_distinct_terms_best_first_ties_by_id() -> None:
    chunks = {7: {"a": 1, "b": 1}, 3: {"a": 1, "c": 1}, 5: {"a": 2}, 9: {"c": 4}}
    ranked = scores(["a", "a", "b", "zzz"], chunks, dict.fromkeys(chunks, 2.0))
    assert [chunk_id for chunk_id, _ in ranked] == [7, 5, 3]
    assert dict(ranked)[7] == pytest.approx(math.log(1 + 1.5 / 3.5) + math.log(1 + 3.5 / 1.5))
    assert scores(["a"], {2: {"a": 1}, 1: {"a": 1}}, {1: 1.0, 2: 1.0})[0][0] == 1
    assert scores([], chunks, dict.fromkeys(chunks, 2.0)) == []


def test_terms_that_lead_a_question_count_more() -> None:
    chunks = {1: {"upload": 1}, 2: {"upload": 1, "time": 1}, 3: {"time": 1}}
    averages = dict.fromkeys(chunks, 1.0)
    plain = dict(scores(["upload", "time"], chunks, averages))
    led = dict(scores(["upload", "time"], chunks, averages, ["upload", "unasked"]))
    assert led[1] == pytest.approx(LEADING_WEIGHT * plain[1])
    assert led[3] == plain[3]
    assert led[2] == pytest.approx(plain[2] * (LEADING_WEIGHT + 1) / 2)
