"""`model.json`: what a model directory holds, readable without the model's runtime."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from strata.errors import ConfigurationError

DESCRIPTION_FILE = "model.json"
MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
BERT_SPECIAL_TOKENS = ("[CLS]", "[SEP]", "[PAD]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """`max_tokens` counts without the special tokens and the prefix; `weights_sha256` names the weights it was made
    from.

    `languages` are those whose meaning the model knows, as ISO 639-1 codes; none are named where nobody has measured.
    The prefixes are what the model was trained to see before a question and before a text that may answer one.
    `special_tokens` are the first, the last and the padding, as the tokenizer writes them.
    """

    model_id: str
    dimension: int
    max_tokens: int
    quantisation: str
    weights_sha256: str
    languages: tuple[str, ...] = ()
    query_prefix: str = ""
    document_prefix: str = ""
    special_tokens: tuple[str, str, str] = BERT_SPECIAL_TOKENS


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
            query_prefix=str(found.get("query_prefix", "")),
            document_prefix=str(found.get("document_prefix", "")),
            special_tokens=_three(found.get("special_tokens", BERT_SPECIAL_TOKENS)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{model_directory / DESCRIPTION_FILE} is not a model's description; run `strata model pull {name}` again."
        ) from error


def _three(tokens: Sequence[str]) -> tuple[str, str, str]:
    first, last, padding = tokens
    return str(first), str(last), str(padding)
