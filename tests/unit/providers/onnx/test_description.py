"""A model directory is described without loading the model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from strata.errors import ConfigurationError
from strata.providers.onnx.description import DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE, ModelDescription, describe

GOOD = {
    "model_id": "small-int8",
    "dimension": 8,
    "max_tokens": 30,
    "quantisation": "int8",
    "weights_sha256": "00ff",
    "more": "is left alone",
}


def write_model(directory: Path, description: str) -> Path:
    (directory / MODEL_FILE).write_bytes(b"")
    (directory / TOKENIZER_FILE).write_bytes(b"")
    (directory / DESCRIPTION_FILE).write_text(description)
    return directory


def test_the_description_is_read(tmp_path: Path) -> None:
    assert describe(write_model(tmp_path, json.dumps(GOOD))) == ModelDescription(
        model_id="small-int8", dimension=8, max_tokens=30, quantisation="int8", weights_sha256="00ff"
    )


def test_what_a_model_was_trained_to_see_first_is_read(tmp_path: Path) -> None:
    more = {"query_prefix": "query: ", "document_prefix": "passage: ", "special_tokens": ["<s>", "</s>", "<pad>"]}
    found = describe(write_model(tmp_path, json.dumps({**GOOD, **more})))
    assert (found.query_prefix, found.document_prefix) == ("query: ", "passage: ")
    assert found.special_tokens == ("<s>", "</s>", "<pad>")


@pytest.mark.parametrize("missing", [DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE])
def test_a_missing_file_is_named_with_the_command_that_helps(tmp_path: Path, missing: str) -> None:
    (write_model(tmp_path, json.dumps(GOOD)) / missing).unlink()
    with pytest.raises(ConfigurationError, match=rf"{missing} missing.*strata model pull minilm"):
        describe(tmp_path)


@pytest.mark.parametrize(
    "description",
    [
        pytest.param("{", id="not JSON"),
        pytest.param("[]", id="no object"),
        pytest.param(json.dumps({**GOOD, "dimension": "many"}), id="no number"),
        pytest.param(json.dumps({"model_id": "small-int8"}), id="a field is missing"),
        pytest.param(json.dumps({**GOOD, "special_tokens": ["<s>", "</s>"]}), id="a token is missing"),
    ],
)
def test_a_broken_description_is_refused(tmp_path: Path, description: str) -> None:
    with pytest.raises(ConfigurationError, match=r"model\.json is not a model's description"):
        describe(write_model(tmp_path, description))


def test_neither_module_imports_the_runtime() -> None:
    script = (
        "import sys; import strata.providers.onnx.description, strata.providers.onnx.embedder;"
        "print(sorted({'onnxruntime', 'tokenizers', 'onnx'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
