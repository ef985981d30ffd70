"""The cross-encoder's order counts, what it costs is bounded, and when it fails the order before it stands."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from strata.errors import ConfigurationError, RerankerRejected, RerankerUnavailable
from strata.model.asking import Candidate, Explanation, Question, Retrieved, ScorePart
from strata.model.corpus import Layer, Span
from strata.retrieval.cross_encoder import BEHIND, PART, CrossEncoderReranker, passage_of
from strata.retrieval.time_limits import within
from tests.support.factories import identity
from tests.support.model_server import word_overlap
from tests.support.models import FakeScorer

QUESTION = Question(text="retry delay", session_id="s", identity=identity())
TEXTS = ["nothing at all", "a delay", "the retry delay", "delay of retry and delay", "else", "retry delay again"]


def rows() -> tuple[Candidate, ...]:
    return tuple(
        Candidate(
            chunk_id=number, path=f"f{number}.py", layer=Layer.C0_SOURCE_CHUNKS, ordinal=0, title=f"f{number}.py",
            content=text, span=Span(start=1, end=2), blob_sha="", metadata={}, score=1 - number / 10, dense_rank=None,
            distance=None, lexical_rank=number + 1, bm25=1.0,
            explanation=Explanation(
                parts=(ScorePart(name="x", sentence="", rank=None, value=1.0, weight=1.0, part=1 - number / 10),),
                terms=(), allowed_by="",
            ),
        )
        for number, text in enumerate(TEXTS)
    )  # fmt: skip


FOUND = Retrieved(candidates=rows(), generation=1, embedding_model="m")


def order(found: Retrieved) -> list[int]:
    return [row.chunk_id for row in found.candidates]


def test_rows_come_in_the_scorers_order_ties_as_they_were() -> None:
    scorer = FakeScorer(word_overlap)
    found = CrossEncoderReranker(scorer=scorer, timeout_s=5).rerank(QUESTION, FOUND)
    assert order(found) == [2, 3, 5, 1, 0, 4]
    assert found.notes == ()
    assert scorer.calls == [("retry delay", [f"f{number}.py\n{text}" for number, text in enumerate(TEXTS)])]


@pytest.mark.parametrize("scored", [2, 3, 50])
def test_only_the_first_rows_are_scored_and_every_rows_parts_add_up(scored: int) -> None:
    scorer = FakeScorer(word_overlap)
    found = CrossEncoderReranker(scorer=scorer, timeout_s=5, rows=scored).rerank(QUESTION, FOUND)
    assert len(scorer.calls[0][1]) == min(scored, 6)
    scores = [row.score for row in found.candidates]
    assert scores == sorted(scores, reverse=True)
    assert order(found)[scored:] == list(range(scored, 6))
    for row in found.candidates:
        assert row.explanation is not None
        assert sum(part.part for part in row.explanation.parts) == pytest.approx(row.score)
        names = [part.name for part in row.explanation.parts]
        assert names == ([PART] if row.chunk_id < scored else ["x", BEHIND])


def test_what_a_caller_prefers_stays_in_front() -> None:
    candidates = [
        replace(row, prefer_bonus=int(row.chunk_id == 4), test_penalty=int(row.chunk_id == 2)) for row in rows()
    ]
    found = CrossEncoderReranker(scorer=FakeScorer(word_overlap), timeout_s=5).rerank(
        QUESTION, replace(FOUND, candidates=tuple(candidates))
    )
    assert order(found) == [4, 3, 5, 1, 0, 2]


class Backwards:
    """A reranker that turns the order round."""

    def rerank(self, question: Question, retrieved: Retrieved) -> Retrieved:
        return replace(retrieved, candidates=retrieved.candidates[::-1], notes=("turned",))


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RerankerUnavailable("secret address"), "reranker_unavailable"),
        (RerankerRejected(), "reranker_rejected"),
        (ConfigurationError("secret key"), "configuration_error"),
        (KeyError("secret"), "internal"),
    ],
)
def test_when_it_fails_the_order_before_stands_and_the_reply_says_so(error: Exception, says: str) -> None:
    def fails(question: str, passage: str) -> float:
        raise error

    reranker = CrossEncoderReranker(scorer=FakeScorer(fails), timeout_s=5, before=Backwards())
    found = reranker.rerank(QUESTION, FOUND)
    assert order(found) == [5, 4, 3, 2, 1, 0]
    assert found.candidates == FOUND.candidates[::-1]
    assert found.notes[0] == "turned"
    assert says in found.notes[1]
    assert "secret" not in found.notes[1]


def test_a_scorer_that_is_late_is_not_waited_for() -> None:
    returned = threading.Event()

    def slow(question: str, passage: str) -> float:
        returned.wait(60)  # whoever waits for it gets its scores in the end, and no note
        return 1.0

    found = CrossEncoderReranker(scorer=FakeScorer(slow), timeout_s=0.1).rerank(QUESTION, FOUND)
    returned.set()
    assert (order(found), len(found.notes)) == ([0, 1, 2, 3, 4, 5], 1)
    assert "0.1 s" in found.notes[0]


def test_a_scorer_that_forgets_rows_has_failed() -> None:
    class Forgetful(FakeScorer):
        def scores(self, question: str, passages: object) -> list[float]:
            return [1.0]

    found = CrossEncoderReranker(scorer=Forgetful(word_overlap), timeout_s=5).rerank(QUESTION, FOUND)
    assert (order(found), len(found.notes)) == ([0, 1, 2, 3, 4, 5], 1)


def test_nothing_to_order_costs_nothing() -> None:
    scorer = FakeScorer(word_overlap)
    one = replace(FOUND, candidates=FOUND.candidates[:1])
    assert CrossEncoderReranker(scorer=scorer, timeout_s=5).rerank(QUESTION, one) == one
    assert scorer.calls == []


def test_a_passage_says_where_it_stands() -> None:
    row = replace(rows()[0], path="src/a.py", title="retry", content="x = 1")
    assert passage_of(row) == "src/a.py\nretry\nx = 1"
    assert len(passage_of(replace(row, content="x" * 100_000))) == 6_000


def test_a_call_in_time_gives_its_result_or_its_error() -> None:
    assert within(5, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 // 0)
    with pytest.raises(TimeoutError):
        within(0.05, lambda: time.sleep(0.3))
