"""The models that the settings name, and what is known of them before they are loaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from strata import choosing, indexing
from strata.bootstrap import environment, stores
from strata.errors import ConfigurationError
from strata.ports.embedding import Embedder
from strata.ports.generation import Expander, Preambler
from strata.settings.model import DEFAULT_MODELS


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingModel:
    """What a session records of its embedder."""

    model_id: str
    dimension: int


@cache
def embedding_model() -> EmbeddingModel:
    """The embedder's model without loading it: functions that only take requests ask this."""
    if environment.settings().embedder.name == "hashed":
        from strata.providers.hashed.embedder import HashedEmbedder

        return EmbeddingModel(model_id=HashedEmbedder.model_id, dimension=HashedEmbedder.dimension)
    from strata.providers.onnx.description import MODEL_FILE, describe
    from strata.providers.static.embedder import TABLE_FILE

    static = environment.settings().embedder.name == "static"
    description = describe(
        _model_directory(), model_file=TABLE_FILE if static else MODEL_FILE, name=_model_directory().name
    )
    return EmbeddingModel(model_id=description.model_id, dimension=description.dimension)


@cache
def embedder() -> Embedder:
    """Loads the model at the first call: a fraction of a second, and about 100 MB of memory (E5: 440 MB)."""
    if environment.settings().embedder.name == "hashed":
        from strata.providers.hashed.embedder import HashedEmbedder

        return HashedEmbedder()
    if environment.settings().embedder.name == "static":
        from strata.providers.static.embedder import StaticEmbedder

        return StaticEmbedder.load(_model_directory())
    from strata.providers.onnx.embedder import OnnxEmbedder

    return OnnxEmbedder.load(_model_directory(), threads=environment.settings().embedder.threads)


def _model_directory() -> Path:
    chosen = environment.settings().embedder
    if chosen.name not in DEFAULT_MODELS:
        names = ", ".join(f"`{name}`" for name in DEFAULT_MODELS)
        raise ConfigurationError(f"STRATA_EMBEDDER must be {names} or `hashed`.")
    if not chosen.model_directory:
        raise ConfigurationError("STRATA_MODEL_DIRECTORY is not set.")
    return Path(chosen.model_directory) / (chosen.model or DEFAULT_MODELS[chosen.name])


@cache
def pipeline_version() -> str:
    """The version of what is made of a file, known without any model."""
    return indexing.pipeline_version(choosing.version_of_preambles(environment.settings().models))


@cache
def preambler() -> Preambler | None:
    """None where chunks get no preamble."""
    settings = environment.settings()
    if not choosing.writes_preambles(settings.models.preamble):
        return None
    from strata.providers.persistence import PATIENT, PersistentChat

    chat = PersistentChat(chat=choosing.chat_model(settings.models.chat), policy=PATIENT)
    return choosing.preambler(chat, settings.models.preamble, embedder(), chunk_tokens=settings.indexing.chunk_tokens)


@cache
def expander() -> Expander | None:
    """None where the plain question is searched."""
    models = environment.settings().models
    if models.rewrite.name == "none":
        return None
    from strata.providers.persistence import BRIEF, PersistentChat

    chat = PersistentChat(chat=choosing.chat_model(models.chat, timeout_s=models.rewrite.timeout_s), policy=BRIEF)
    return choosing.expander(chat, models.rewrite, stores.query_cache())
