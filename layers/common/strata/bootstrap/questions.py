"""What answers questions from what is indexed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from strata import __version__, choosing
from strata.answering.answer import Answerer
from strata.answering.cache_gate import CacheGate
from strata.bootstrap import environment, models, stores
from strata.errors import ConfigurationError
from strata.ports.generation import Generator
from strata.ports.reranking import Reranker
from strata.retrieval.retrieve import Retriever


@cache
def answerer() -> Answerer:
    """Answers questions from what is indexed."""
    return Answerer(
        gate=cache_gate(),
        retriever=retriever(),
        search=stores.chunk_search(),
        generator=generator(),
        counter=models.embedder(),
        max_context_tokens=environment.settings().answering.max_context_tokens,
    )


def warm_answering() -> None:
    """Build what a question needs and run the embedder once, so that the first question doesn't wait for it.

    No store is called: a paused database stays paused.
    """
    answerer()
    models.embedder().embed_query("warm")


@cache
def retriever() -> Retriever:
    settings = environment.settings()
    return Retriever(
        search=stores.chunk_search(),
        embedder=models.embedder(),
        depth=settings.answering.retrieval_depth,
        structural_weight=settings.answering.structural_weight,
        reranker=reranker(),
        expander=models.expander(),
        row_tokens=settings.indexing.chunk_tokens,
    )


@cache
def reranker() -> Reranker | None:
    """The reranker that the settings name; None for the order of the fusion."""
    settings = environment.settings()
    return choosing.reranker(settings.models.reranker, _features, threads=settings.embedder.threads)


def _features() -> Reranker:
    from strata.retrieval.features import FeatureReranker

    return FeatureReranker(languages=models.embedder().languages)


@cache
def cache_gate() -> CacheGate:
    return CacheGate(
        cache=stores.query_cache(),
        search=stores.chunk_search(),
        retrieval_version=_retrieval_version(),
        ttl_s=environment.settings().answering.cache_ttl_s,
    )


def _retrieval_version() -> str:
    settings, expanded = environment.settings(), models.expander()
    chosen = settings.models.reranker
    parts = (
        __version__,
        models.pipeline_version(),
        str(settings.answering.retrieval_depth),
        str(settings.answering.structural_weight),
        str(settings.indexing.chunk_tokens),
        chosen.name,
        chosen.model,
        str(chosen.rows),
        "" if expanded is None else expanded.version,
    )
    return "/".join(parts)


@cache
def generator() -> Generator:
    """The generator that the settings name."""
    name = environment.settings().answering.generator
    if name not in _GENERATORS:
        raise ConfigurationError(f"STRATA_GENERATOR must be one of: {', '.join(sorted(_GENERATORS))}.")
    return _GENERATORS[name]()


def _extractive() -> Generator:
    from strata.providers.extractive.generator import ExtractiveGenerator

    return ExtractiveGenerator()


_GENERATORS: dict[str, Callable[[], Generator]] = {"extractive": _extractive}
"""Generators by name, imported on use."""
