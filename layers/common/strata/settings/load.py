"""The environment → `Settings`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, TypeVar

from strata.errors import ConfigurationError
from strata.settings.model import (
    AnsweringSettings,
    EmbedderSettings,
    IndexingSettings,
    Settings,
    StorageSettings,
    UploadLimits,
)

T = TypeVar("T")


def load_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read every `STRATA_*` variable: the field's name in capitals, say `STRATA_MAX_CONTEXT_TOKENS`; the embedder's
    are `STRATA_EMBEDDER`, `STRATA_EMBEDDER_MODEL`, `STRATA_MODEL_DIRECTORY` and `STRATA_EMBEDDER_THREADS`.

    Raises `ConfigurationError` that names every fault at once, never a value (it may be a secret).
    """
    faults: list[str] = []

    def section(kind: type[T], names: Mapping[str, str] = {}, **built: Any) -> T | None:
        values: dict[str, Any] = dict(built)
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            if field.name in built:
                continue
            variable = names.get(field.name, f"STRATA_{field.name.upper()}")
            text = environment.get(variable, "").strip()
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if not text:
                if required:
                    faults.append(f"{variable} is not set")
                continue
            try:
                values[field.name] = {"int": int, "float": float}.get(str(field.type), str)(text)
            except ValueError:
                faults.append(f"{variable} is not a number")
        return None if faults else kind(**values)

    storage = section(StorageSettings)
    limits = section(UploadLimits)
    indexing = section(IndexingSettings, limits=limits)
    embedder = section(
        EmbedderSettings,
        {"name": "STRATA_EMBEDDER", "model": "STRATA_EMBEDDER_MODEL", "threads": "STRATA_EMBEDDER_THREADS"},
    )
    answering = section(AnsweringSettings)
    if faults or storage is None or indexing is None or embedder is None or answering is None:
        raise ConfigurationError("Settings are wrong: " + "; ".join(faults) + ".")
    return Settings(storage=storage, indexing=indexing, embedder=embedder, answering=answering)
