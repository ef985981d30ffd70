"""The embedders that a run may choose, with their cache of vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from strata.errors import ConfigurationError
from strata.ports.embedding import Embedder
from strata.providers.onnx.description import MODEL_FILE
from strata.providers.static.embedder import TABLE_FILE
from strata_eval.vector_cache import CachedEmbedder, VectorCache

EMBEDDERS = ("onnx", "static")


def cached_embedder(name: str, *, models: Path, cache: Path, say: Callable[[str], None]) -> CachedEmbedder:
    """`onnx` is MiniLM, `static` WordLlama; pulled when it is not there."""
    from strata_local.models import pull_minilm, pull_wordllama

    embedder: Embedder
    if name == "onnx":
        from strata.providers.onnx.embedder import OnnxEmbedder

        folder, weights = pull_minilm(models / "minilm", say=say), MODEL_FILE
        embedder = OnnxEmbedder.load(folder)
    elif name == "static":
        from strata.providers.static.embedder import StaticEmbedder

        folder, weights = pull_wordllama(models / "wordllama", say=say), TABLE_FILE
        embedder = StaticEmbedder.load(folder)
    else:
        raise ConfigurationError(f"There is no embedder {name!r} to measure; choose one of: {', '.join(EMBEDDERS)}.")
    fingerprint = hashlib.sha256((folder / weights).read_bytes()).hexdigest()

    def advanced(done: int, total: int) -> None:
        if total > 1_000:
            say(f"embedding {done:,} of {total:,}")

    return CachedEmbedder(
        embedder=embedder, cache=VectorCache(cache / "vectors.sqlite"), fingerprint=fingerprint, advanced=advanced
    )
