"""The fusion's weights come from the question and the embedder alone."""

from __future__ import annotations

import pytest

from strata.retrieval.weighing import LEAST_DENSE_WEIGHT, fusion_weights, shape_of

ENGLISH = frozenset({"en"})


def test_a_question_that_the_embedder_understands_weighs_both_lists_alike() -> None:
    weights = fusion_weights(shape_of("How does the lock work?", ENGLISH))
    assert (weights.dense, weights.lexical) == (1.0, 1.0)


def test_a_question_in_another_language_is_left_to_the_words() -> None:
    weights = fusion_weights(shape_of("Как работает блокировка?", ENGLISH))
    assert (weights.dense, weights.lexical) == (LEAST_DENSE_WEIGHT, 1.0)


def test_an_embedder_of_that_language_is_trusted() -> None:
    assert fusion_weights(shape_of("Как работает блокировка?", frozenset({"en", "ru"}))).dense == 1.0


def test_the_dense_weight_grows_with_what_is_understood() -> None:
    texts = ["Как работает блокировка?", "Как работает lock?", "Как works the lock?", "How works the lock?"]
    weights = [fusion_weights(shape_of(text, ENGLISH)).dense for text in texts]
    assert weights == sorted(weights)
    assert len(set(weights)) == len(weights)


@pytest.mark.parametrize("text", ["SessionLock.acquire()", "42", "retry_after_s"])
def test_names_and_numbers_are_nothing_that_an_embedder_misunderstands(text: str) -> None:
    assert fusion_weights(shape_of(text, ENGLISH)).dense == 1.0


def test_a_long_report_counts_less_for_its_words() -> None:
    assert fusion_weights(shape_of("word " * 200, ENGLISH)).lexical < 1.0


def test_names_count_less_the_longer_the_question_is_and_nothing_in_a_report() -> None:
    weights = [
        fusion_weights(shape_of("why does blob_sha fail " + "word " * n, ENGLISH)).exact
        for n in (0, 6, 20, 50, 60, 200)
    ]
    assert weights[0] == weights[1] == 1.0 > weights[2] > weights[3] > 0.0 == weights[4] == weights[5]
