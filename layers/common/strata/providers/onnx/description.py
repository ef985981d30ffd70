"""`model.json`: what a model directory holds, readable without the model's runtime."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from strata.errors import ConfigurationError

DESCRIPTION_FILE = "model.json"
MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """`max_tokens` counts without the two special tokens; `weights_sha256` names the weights it was made from."""

    model_id: str
    dimension: int
    max_tokens: int
    quantisation: str
    weights_sha256: str


def describe(model_directory: Path) -> ModelDescription:
    """Read the description; raises `ConfigurationError` that says how to get a model when there is none."""
    missing = [
        name for name in (DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE) if not (model_directory / name).is_file()
    ]
    if missing:
        raise ConfigurationError(
            f"{model_directory} holds no embedding model ({', '.join(missing)} missing): "
            "run `strata model pull minilm`."
        )
    try:
        found = json.loads((model_directory / DESCRIPTION_FILE).read_text(encoding="utf-8"))
        return ModelDescription(
            model_id=str(found["model_id"]),
            dimension=int(found["dimension"]),
            max_tokens=int(found["max_tokens"]),
            quantisation=str(found["quantisation"]),
            weights_sha256=str(found["weights_sha256"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{model_directory / DESCRIPTION_FILE} is not a model's description; run `strata model pull minilm` again."
        ) from error
