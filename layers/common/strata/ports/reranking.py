"""A second look at what a search has found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from strata.model.asking import Question, Retrieved


class PassageScorer(Protocol):
    """A cross-encoder: reads question and passage together."""

    @property
    def model_id(self) -> str: ...

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        """How well each passage answers, in order, finite, higher is better.

        Raises `RerankerUnavailable`, `RerankerRejected` and `ConfigurationError`.
        """
        ...


class Reranker(Protocol):
    def rerank(self, question: Question, retrieved: Retrieved) -> Retrieved:
        """The same candidates, best first, under scores of its own; what the caller prefers stays in front.

        One that fails leaves the order as it is and says so in `Retrieved.notes`.
        """
        ...
