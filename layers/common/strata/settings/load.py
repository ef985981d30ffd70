"""The environment → `Settings`."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from typing import Any, TypeVar

from strata.errors import ConfigurationError
from strata.settings.model import (
    AnsweringSettings,
    ChatSettings,
    EmbedderSettings,
    IndexingSettings,
    ModelSettings,
    PreambleSettings,
    RerankerSettings,
    RewriteSettings,
    Settings,
    StorageSettings,
    UploadLimits,
)

T = TypeVar("T")


def load_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read every `STRATA_*` variable: the field's name in capitals, say `STRATA_MAX_CONTEXT_TOKENS`.

    Sections with a `name` put theirs in front: `STRATA_EMBEDDER`, `STRATA_EMBEDDER_MODEL`, `STRATA_EMBEDDER_THREADS`,
    and so for `STRATA_CHAT`, `STRATA_PREAMBLE`, `STRATA_REWRITE` and `STRATA_RERANKER`. Model directories stand in
    `STRATA_MODEL_DIRECTORY`.

    Raises `ConfigurationError` that names every fault at once, never a value (it may be a secret).
    """
    reader = _Reader(environment)
    return reader.whole(
        Settings,
        storage=reader.section(StorageSettings),
        indexing=reader.section(IndexingSettings, limits=reader.section(UploadLimits)),
        embedder=reader.section(EmbedderSettings, prefix="EMBEDDER"),
        answering=reader.section(AnsweringSettings),
        models=_models(reader),
    )


def load_model_settings(environment: Mapping[str, str] = os.environ) -> ModelSettings:
    """The optional models alone: what a measurement without stores needs. Raises as `load_settings` does."""
    reader = _Reader(environment)
    return reader.whole(ModelSettings, **_model_sections(reader))


def _models(reader: _Reader) -> ModelSettings | None:
    sections = _model_sections(reader)
    return None if reader.faults else ModelSettings(**sections)


def _model_sections(reader: _Reader) -> dict[str, Any]:
    return {
        "chat": reader.section(ChatSettings, prefix="CHAT"),
        "preamble": reader.section(PreambleSettings, prefix="PREAMBLE"),
        "rewrite": reader.section(RewriteSettings, prefix="REWRITE"),
        "reranker": reader.section(RerankerSettings, prefix="RERANKER"),
    }


class _Reader:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.faults: list[str] = []

    def section(self, kind: type[T], *, prefix: str = "", **built: Any) -> T | None:
        """The section, or None where any variable so far is wrong: then it is in `faults`."""
        values: dict[str, Any] = dict(built)
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            if field.name in built:
                continue
            variable = _variable(field.name, prefix)
            text = self._environment.get(variable, "").strip()
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if not text:
                if required:
                    self.faults.append(f"{variable} is not set")
                continue
            try:
                value = {"int": int, "float": float}.get(str(field.type), str)(text)
            except ValueError:
                self.faults.append(f"{variable} is not a number")
                continue
            if isinstance(value, int | float) and not 0 <= value < math.inf:
                self.faults.append(f"{variable} is below 0, or no finite number")
            values[field.name] = value
        return None if self.faults else kind(**values)

    def whole(self, kind: type[T], **sections: Any) -> T:
        if self.faults:
            raise ConfigurationError("Settings are wrong: " + "; ".join(self.faults) + ".")
        return kind(**sections)


def _variable(field: str, prefix: str) -> str:
    if field == "model_directory":
        return "STRATA_MODEL_DIRECTORY"
    if not prefix:
        return f"STRATA_{field.upper()}"
    return f"STRATA_{prefix}" if field == "name" else f"STRATA_{prefix}_{field.upper()}"
