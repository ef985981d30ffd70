"""The models that the environment configures for the optional steps, and why a step has none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from strata import choosing
from strata.model.chat import ModelUsage, Prices
from strata.ports.embedding import TokenCounter
from strata.ports.generation import ChatModel, Preambler
from strata.ports.reranking import PassageScorer
from strata.providers.persistence import PATIENT, PersistentChat
from strata.settings.load import load_model_settings
from strata.settings.model import ChatSettings, IndexingSettings, PreambleSettings, RerankerSettings
from strata_eval.reply_cache import Meter, MeteredChat, MeteredScorer, ReplyCache

REPLIES = "replies.sqlite"
NO_CHAT = "no chat model is configured: set STRATA_CHAT and STRATA_CHAT_MODEL"
NO_SCORER = f"no cross-encoder is configured: set STRATA_RERANKER to one of {', '.join(choosing.CROSS_ENCODERS)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalModels:
    """What a run may use beside the embedder; the meters tell what they used."""

    chat: ChatModel | None = None
    scorer: PassageScorer | None = None
    preamble: PreambleSettings = field(default_factory=PreambleSettings)
    reranker: RerankerSettings = field(default_factory=RerankerSettings)
    prices: Prices = field(default_factory=Prices)
    chat_meter: Meter = field(default_factory=Meter)
    scorer_meter: Meter = field(default_factory=Meter)

    def missing(self, step: str) -> str:
        """Why the step can't be made; empty where it can."""
        if step == "structural":
            return ""
        if step == "cross-encoder":
            return "" if self.scorer is not None else NO_SCORER
        return "" if self.chat is not None else NO_CHAT

    def preambler(self, counter: TokenCounter) -> Preambler | None:
        if self.chat is None:
            return None
        return choosing.preambler(self.chat, self.preamble, counter, chunk_tokens=IndexingSettings().chunk_tokens)

    def used(self) -> ModelUsage:
        """What was used since the last call, with its cost where prices are configured."""
        chat, scorer = self.chat_meter.read_usage(), self.scorer_meter.read_usage()
        costs = [self.prices.cost(chat)] if chat.calls else []
        if scorer.calls:
            costs.append(round(scorer.calls * self.reranker.price / 1_000, 6) if self.reranker.price else None)
        known = [cost for cost in costs if cost is not None]
        return replace(chat + scorer, cost=sum(known) if len(known) == len(costs) else None)

    def saved_s(self) -> float:
        """Seconds that kept replies did not take since the last call."""
        return self.chat_meter.read_saved_s() + self.scorer_meter.read_saved_s()


def optional_chat(cache: Path, environment: Mapping[str, str] = os.environ) -> ChatModel | None:
    """The chat model that the environment names, if it names one; replies are kept in `cache` between runs."""
    settings = load_model_settings(environment).chat
    return _metered_chat(settings, ReplyCache(cache / REPLIES), Meter()) if settings.name else None


def _metered_chat(settings: ChatSettings, replies: ReplyCache, meter: Meter) -> MeteredChat:
    model = PersistentChat(chat=choosing.chat_model(settings), policy=PATIENT)
    fingerprint = f"{settings.name} {settings.url} {settings.model}"
    return MeteredChat(chat=model, cache=replies, meter=meter, fingerprint=fingerprint)


def optional_models(counter: TokenCounter, cache: Path, environment: Mapping[str, str] = os.environ) -> OptionalModels:
    """Those that `STRATA_CHAT…` and `STRATA_RERANKER…` name; raises `ConfigurationError` for one that is named wrongly.

    Replies are kept in `cache` between runs.
    """
    settings = load_model_settings(environment)
    replies = ReplyCache(cache / REPLIES)
    chat_meter, scorer_meter = Meter(), Meter()
    chat: ChatModel | None = None
    scorer: PassageScorer | None = None
    if settings.chat.name:
        chat = _metered_chat(settings.chat, replies, chat_meter)
    if settings.reranker.name in choosing.CROSS_ENCODERS:
        model_of_pairs = choosing.scorer(settings.reranker)
        fingerprint = f"{settings.reranker.name} {settings.reranker.url} {model_of_pairs.model_id}"
        scorer = MeteredScorer(
            scorer=model_of_pairs, cache=replies, meter=scorer_meter, fingerprint=fingerprint, counter=counter
        )
    return OptionalModels(
        chat=chat,
        scorer=scorer,
        preamble=settings.preamble,
        reranker=settings.reranker,
        prices=choosing.prices(settings.chat),
        chat_meter=chat_meter,
        scorer_meter=scorer_meter,
    )
