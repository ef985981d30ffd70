"""The embedders that a run may choose, with their cache of vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from strata.errors import ConfigurationError
from strata.ports.embedding import Embedder
from strata.providers.onnx.description import MODEL_FILE
from strata.providers.static.embedder import TABLE_FILE
from strata.settings.model import DEFAULT_MODELS
from strata_eval.vector_cache import CachedEmbedder, VectorCache


def real_embedder(name: str, *, models: Path, say: Callable[[str], None], threads: int = 0) -> tuple[Embedder, Path]:
    """The embedder of a name that `STRATA_EMBEDDER` or `strata model pull` takes, and the file of its weights; pulled
    when it is not there."""
    from strata_local.models import PULLS

    name = {model: embedder for embedder, model in DEFAULT_MODELS.items()}.get(name, name)
    if name not in DEFAULT_MODELS:
        known = ", ".join(dict.fromkeys([*DEFAULT_MODELS, *DEFAULT_MODELS.values()]))
        raise ConfigurationError(f"There is no embedder {name!r} to measure; choose one of: {known}.")
    model = DEFAULT_MODELS[name]
    folder = PULLS[model](models / model, say=say)
    if name == "static":
        from strata.providers.static.embedder import StaticEmbedder

        return StaticEmbedder.load(folder), folder / TABLE_FILE
    from strata.providers.onnx.embedder import OnnxEmbedder

    return OnnxEmbedder.load(folder, threads=threads), folder / MODEL_FILE


def cached_embedder(name: str, *, models: Path, cache: Path, say: Callable[[str], None]) -> CachedEmbedder:
    """A real embedder, whose vectors are kept in the folder `cache`."""
    embedder, weights = real_embedder(name, models=models, say=say)
    fingerprint = hashlib.sha256(weights.read_bytes()).hexdigest()

    def advanced(done: int, total: int) -> None:
        if total > 1_000:
            say(f"embedding {done:,} of {total:,}")

    return CachedEmbedder(
        embedder=embedder, cache=VectorCache(cache / "vectors.sqlite"), fingerprint=fingerprint, advanced=advanced
    )
