"""Settings → the optional models that they name. Imported on use; nothing is called before it is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from strata.errors import ConfigurationError, UnknownLayer
from strata.indexing.preamble import ChatPreambler, preamble_version
from strata.model.chat import Prices
from strata.model.corpus import Layer
from strata.ports.caches import TextCache
from strata.ports.embedding import TokenCounter
from strata.ports.generation import ChatModel
from strata.ports.reranking import PassageScorer, Reranker
from strata.retrieval.cross_encoder import CrossEncoderReranker
from strata.retrieval.expanding import ChatExpander
from strata.settings.model import (
    ChatSettings,
    ModelSettings,
    PreambleSettings,
    RerankerSettings,
    RewriteSettings,
)

CROSS_ENCODERS = ("bedrock", "cohere", "onnx", "tei")
_LEAST_PREAMBLE_TOKENS = 10


def chat_model(settings: ChatSettings, *, timeout_s: float | None = None) -> ChatModel:
    """The chat model, not repeated. Raises `ConfigurationError` where none is named, or not whole."""
    limit_s = timeout_s or settings.timeout_s
    if settings.name not in ("bedrock", "extractive", "openai"):
        raise ConfigurationError("STRATA_CHAT must be one of: bedrock, extractive, openai.")
    if settings.name == "extractive":
        from strata.providers.extractive.chat import ExtractiveChat

        return ExtractiveChat()
    if not settings.model:
        raise ConfigurationError("STRATA_CHAT_MODEL is not set.")
    if settings.name == "openai":
        from strata.providers.openai.chat import OpenAiChat

        return OpenAiChat.at(settings.url, model=settings.model, key=settings.key, timeout_s=limit_s)
    from strata.providers.bedrock.chat import BedrockChat
    from strata.storage.aws import aws_client

    client = aws_client("bedrock-runtime", read_timeout_s=limit_s, attempts=1)
    return BedrockChat(model_id=settings.model, client=client)


def prices(settings: ChatSettings) -> Prices:
    return Prices(input=settings.input_price, output=settings.output_price)


def writes_preambles(settings: PreambleSettings) -> bool:
    """Raises `ConfigurationError` for a name that is none."""
    if settings.name not in ("none", "chat"):
        raise ConfigurationError("STRATA_PREAMBLE must be one of: chat, none.")
    return settings.name == "chat"


def version_of_preambles(settings: ModelSettings) -> str:
    """What the preambles' version is going to be, without the model; empty where there are none."""
    if not writes_preambles(settings.preamble):
        return ""
    return preamble_version(
        "extractive" if settings.chat.name == "extractive" else settings.chat.model,
        layers=_layers(settings.preamble),
        tokens=settings.preamble.tokens,
        document_characters=settings.preamble.document_characters,
    )


def preambler(
    chat: ChatModel, settings: PreambleSettings, counter: TokenCounter, *, chunk_tokens: int
) -> ChatPreambler:
    """Raises `ConfigurationError` when a preamble would take half of a chunk, or is too short to say anything."""
    most = min(chunk_tokens, counter.max_tokens) // 2
    if not _LEAST_PREAMBLE_TOKENS <= settings.tokens <= most:
        raise ConfigurationError(
            f"STRATA_PREAMBLE_TOKENS must be {_LEAST_PREAMBLE_TOKENS} to {most}: a chunk holds {2 * most} tokens."
        )
    return ChatPreambler(
        chat=chat,
        counter=counter,
        layers=_layers(settings),
        tokens=settings.tokens,
        document_characters=settings.document_characters,
        parallel=settings.parallel,
    )


def expander(chat: ChatModel, settings: RewriteSettings, cache: TextCache) -> ChatExpander | None:
    """None where the plain question is searched."""
    if settings.name not in ("none", "rewrite", "hyde", "both"):
        raise ConfigurationError("STRATA_REWRITE must be one of: both, hyde, none, rewrite.")
    if settings.name == "none":
        return None
    return ChatExpander(
        chat=chat,
        cache=cache,
        rewrite=settings.name in ("rewrite", "both"),
        hyde=settings.name in ("hyde", "both"),
        timeout_s=settings.timeout_s,
        ttl_s=settings.cache_ttl_s,
    )


def scorer(settings: RerankerSettings, *, threads: int = 0) -> PassageScorer:
    """The cross-encoder. Raises `ConfigurationError` where none is named, or not whole."""
    from strata.providers.persistence import BRIEF, PersistentScorer

    return PersistentScorer(scorer=_scorer(settings, threads), policy=BRIEF)


def _scorer(settings: RerankerSettings, threads: int) -> PassageScorer:
    if settings.name == "onnx":
        from strata.providers.onnx.scorer import OnnxScorer

        if not settings.model_directory:
            raise ConfigurationError("STRATA_MODEL_DIRECTORY is not set.")
        return OnnxScorer.load(Path(settings.model_directory) / (settings.model or "reranker"), threads=threads)
    if settings.name not in CROSS_ENCODERS:
        raise ConfigurationError(f"STRATA_RERANKER must be one of: {', '.join(CROSS_ENCODERS)}.")
    if not settings.model and settings.name != "tei":
        raise ConfigurationError("STRATA_RERANKER_MODEL is not set.")
    if settings.name == "bedrock":
        from strata.providers.bedrock.scorer import BedrockScorer
        from strata.storage.aws import aws_client

        client = aws_client("bedrock-agent-runtime", read_timeout_s=settings.timeout_s, attempts=1)
        return BedrockScorer.of(client, settings.model)
    from strata.providers.cohere.scorer import CohereScorer

    return CohereScorer.at(
        settings.url,
        model=settings.model or "tei",
        key=settings.key,
        timeout_s=settings.timeout_s,
        tei=settings.name == "tei",
    )


def reranker(settings: RerankerSettings, features: Callable[[], Reranker], *, threads: int = 0) -> Reranker | None:
    """None for the order of the fusion."""
    if settings.name == "none":
        return None
    if settings.name == "features":
        return features()
    if settings.name not in CROSS_ENCODERS:
        known = ", ".join(sorted(("features", "none", *CROSS_ENCODERS)))
        raise ConfigurationError(f"STRATA_RERANKER must be one of: {known}.")
    if settings.rows < 2:
        raise ConfigurationError("STRATA_RERANKER_ROWS must be at least 2: one row has no order.")
    return CrossEncoderReranker(
        scorer=scorer(settings, threads=threads),
        timeout_s=settings.timeout_s,
        before=features(),
        rows=settings.rows,
    )


def _layers(settings: PreambleSettings) -> tuple[Layer, ...]:
    try:
        layers = [Layer.named(name.strip()) for name in settings.layers.split(",") if name.strip()]
    except UnknownLayer as error:
        raise ConfigurationError(f"STRATA_PREAMBLE_LAYERS: {error.message}") from error
    return tuple(sorted(set(layers)))
