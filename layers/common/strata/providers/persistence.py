"""Models that are asked again when they are away for a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strata.jobs.retrying import RetryPolicy, retried
from strata.model.chat import Completion, Prompt
from strata.ports.generation import ChatModel
from strata.ports.reranking import PassageScorer

PATIENT = RetryPolicy(attempts=6, first_pause_s=0.5, longest_pause_s=8.0)
"""Indexing: a job that ends for one throttled call would pay for all the others again."""
BRIEF = RetryPolicy(attempts=3, first_pause_s=0.1, longest_pause_s=0.4)
"""A question: somebody waits, and there is a time limit around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentChat:
    """A `ChatModel`."""

    chat: ChatModel
    policy: RetryPolicy

    @property
    def model_id(self) -> str:
        return self.chat.model_id

    def complete(self, prompt: Prompt) -> Completion:
        return retried(lambda: self.chat.complete(prompt), self.policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentScorer:
    """A `PassageScorer`."""

    scorer: PassageScorer
    policy: RetryPolicy

    @property
    def model_id(self) -> str:
        return self.scorer.model_id

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        return retried(lambda: self.scorer.scores(question, passages), self.policy)
