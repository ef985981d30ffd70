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
    """`max_tokens` counts without the special tokens; `weights_sha256` names the weights it was made from.

    `languages` are those whose meaning the model knows, as ISO 639-1 codes; none are named where nobody has measured.
    """

    model_id: str
    dimension: int
    max_tokens: int
    quantisation: str
    weights_sha256: str
    languages: tuple[str, ...] = ()


def describe(model_directory: Path, *, model_file: str = MODEL_FILE, name: str = "minilm") -> ModelDescription:
    """Read the description; raises `ConfigurationError` that says how to get the model `name` when there is none."""
    missing = [
        file for file in (DESCRIPTION_FILE, model_file, TOKENIZER_FILE) if not (model_directory / file).is_file()
    ]
    if missing:
        raise ConfigurationError(
            f"{model_directory} holds no embedding model ({', '.join(missing)} missing): "
            f"run `strata model pull {name}`."
        )
    try:
        found = json.loads((model_directory / DESCRIPTION_FILE).read_text(encoding="utf-8"))
        return ModelDescription(
            model_id=str(found["model_id"]),
            dimension=int(found["dimension"]),
            max_tokens=int(found["max_tokens"]),
            quantisation=str(found["quantisation"]),
            weights_sha256=str(found["weights_sha256"]),
            languages=tuple(str(language) for language in found.get("languages", ())),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{model_directory / DESCRIPTION_FILE} is not a model's description; run `strata model pull {name}` again."
        ) from error
