"""The static embedder keeps the embedder's contract, and needs no more than numpy and a tokenizer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from strata.errors import ConfigurationError
from strata.providers.onnx.description import DESCRIPTION_FILE, TOKENIZER_FILE
from strata.providers.static.embedder import TABLE_FILE, StaticEmbedder
from strata_local.models import pull_wordllama
from tests.support.embedder_contract import EmbedderContract
from tests.support.wordllama import wordllama


class TestStaticEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> StaticEmbedder:
        return wordllama()


def test_a_vector_is_the_mean_of_its_tokens_of_unit_length() -> None:
    embedder = wordllama()
    ids = embedder.tokenizer.encode("the lock of a session", add_special_tokens=False).ids
    mean = embedder.table[ids].mean(axis=0)
    assert embedder.embed_query("the lock of a session") == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)


def test_the_golden_vector_is_the_one_that_the_package_computes() -> None:
    # First four components of WordLlama.load().embed(["How does the lock work?"], norm=True), wordllama 0.4.0.post1.
    golden = [0.179605, 0.054397, -0.084513, 0.044676]
    assert wordllama().embed_query("How does the lock work?")[:4] == pytest.approx(golden, abs=2e-4)


def test_half_a_character_is_embedded_like_a_replacement_mark() -> None:
    embedder = wordllama()
    assert np.array_equal(embedder.embed_query("a \ud800 b"), embedder.embed_query("a ? b"))


def test_it_knows_what_it_is() -> None:
    embedder = wordllama()
    assert (embedder.model_id, embedder.dimension, embedder.max_tokens) == ("wordllama-l2-256", 256, 512)


def test_a_model_without_its_table_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="strata model pull wordllama"):
        StaticEmbedder.load(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        pytest.param(TABLE_FILE, b"no table", "can't be loaded", id="a broken table"),
        pytest.param(TOKENIZER_FILE, b"{}", "can't be loaded", id="a broken tokenizer"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, file: str, content: bytes, message: str) -> None:
    copy = copied_model(tmp_path)
    (copy / file).write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        StaticEmbedder.load(copy)


def test_a_table_of_another_width_is_refused(tmp_path: Path) -> None:
    copy = copied_model(tmp_path)
    np.save(copy / TABLE_FILE, np.ones((32000, 8), dtype=np.float16))
    with pytest.raises(ConfigurationError, match="do not belong together"):
        StaticEmbedder.load(copy)


def copied_model(folder: Path) -> Path:
    wordllama()  # or skip
    pulled = pull_wordllama(Path(__file__).resolve().parents[4] / ".strata" / "models" / "wordllama", say=print)
    for name in (TABLE_FILE, TOKENIZER_FILE, DESCRIPTION_FILE):
        shutil.copy(pulled / name, folder / name)
    return folder


def test_importing_it_imports_no_runtime() -> None:
    script = (
        "import sys; import strata.providers.static.embedder;"
        "print(sorted({'onnxruntime', 'tokenizers', 'safetensors', 'wordllama'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
