"""The ONNX embedder with the real model: the port's promises, and what is this adapter's own."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import ConfigurationError, EmbedderUnavailable
from strata.ports.embedding import Embedder
from strata.providers.onnx.description import DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE
from strata.providers.onnx.embedder import BATCH_TOKENS, OnnxEmbedder, _batches, _multiplies_bytes_exactly
from tests.support.embedder_contract import TEXTS, EmbedderContract
from tests.support.minilm import minilm, minilm_directory

PORTS = Path(__file__).resolve().parents[4] / "layers/common/strata/ports"
SENTENCES = "\n\n".join(path.read_text() for path in sorted(PORTS.glob("*.py"))).split("\n\n")


class TestOnnxEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return minilm()


def test_the_model_says_what_it_is() -> None:
    embedder = minilm()
    assert (embedder.model_id, embedder.dimension, embedder.max_tokens) == ("minilm-l6-v2-int8", 384, 254)


def test_many_texts_of_mixed_length_keep_their_order() -> None:
    texts = [sentence[: 10 + 37 * (number % 40)] for number, sentence in enumerate(SENTENCES) if sentence.strip()]
    random.Random(5).shuffle(texts)
    assert sum(minilm().count(texts)) > 4 * BATCH_TOKENS
    together = minilm().embed_documents(texts)
    alone = np.stack([minilm().embed_query(text) for text in texts])
    assert ((together * alone).sum(axis=1) > 0.9999).all()


def test_the_number_of_threads_does_not_change_the_vectors() -> None:
    texts = [sentence for sentence in SENTENCES if sentence.strip()]
    assert np.array_equal(minilm(threads=1).embed_documents(texts), minilm(threads=3).embed_documents(texts))


def test_padding_does_not_change_a_vector() -> None:
    short = "a lease that ran out"
    beside_a_long_one = minilm()._run(minilm()._sequences([short, "word " * 120]))[0]
    assert float(beside_a_long_one @ minilm().embed_query(short)) > 0.9999


def test_the_last_token_inside_the_limit_counts_and_the_next_does_not() -> None:
    embedder = minilm()
    words = ["one"] * embedder.max_tokens
    full = embedder.embed_query(" ".join(words))
    assert np.array_equal(full, embedder.embed_query(" ".join([*words, "banana"])))
    assert not np.allclose(full, embedder.embed_query(" ".join([*words[:-1], "banana"])))


@given(st.lists(st.integers(min_value=1, max_value=256), max_size=200), st.integers(min_value=1, max_value=1_000))
def test_batches_hold_every_text_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = list(_batches(lengths, batch_tokens=budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        widest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or widest * len(batch) <= budget
    ordered = [lengths[index] for batch in batches for index in batch]
    assert ordered == sorted(lengths, reverse=True)


@pytest.mark.parametrize("broken", [MODEL_FILE, TOKENIZER_FILE])
def test_a_broken_file_is_a_configuration_fault(tmp_path: Path, broken: str) -> None:
    for name in (MODEL_FILE, TOKENIZER_FILE, DESCRIPTION_FILE):
        shutil.copy(minilm_directory() / name, tmp_path)
    (tmp_path / broken).write_bytes(b"not what it should be")
    with pytest.raises(ConfigurationError, match="can't be loaded"):
        OnnxEmbedder.load(tmp_path)


def test_a_graph_of_another_dimension_is_refused(tmp_path: Path) -> None:
    for name in (MODEL_FILE, TOKENIZER_FILE):
        shutil.copy(minilm_directory() / name, tmp_path)
    described = (minilm_directory() / DESCRIPTION_FILE).read_text()
    (tmp_path / DESCRIPTION_FILE).write_text(described.replace('"dimension": 384', '"dimension": 256'))
    with pytest.raises(ConfigurationError, match="do not belong together"):
        OnnxEmbedder.load(tmp_path)


def test_a_fault_of_the_runtime_is_translated() -> None:
    out_of_vocabulary = replace(minilm(), special_tokens=(40_000, 102, 0))
    with pytest.raises(EmbedderUnavailable, match="failed on 1 texts") as failure:
        out_of_vocabulary.embed_query("anything")
    assert failure.value.__cause__ is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_can_go_on_embedding_without_a_warning() -> None:
    script = f"""
import os
from pathlib import Path
from strata.providers.onnx.embedder import OnnxEmbedder
embedder = OnnxEmbedder.load(Path({str(minilm_directory())!r}), threads=2)
texts = {TEXTS!r} * 40
before = embedder.embed_documents(texts)
child = os.fork()
if child == 0:
    os._exit(0 if (embedder.embed_documents(texts) == before).all() else 3)
_, status = os.waitpid(child, 0)
raise SystemExit(os.waitstatus_to_exitcode(status))
"""
    environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],
        capture_output=True, text=True, timeout=60, env=environment, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("flags", "exact"),
    [
        pytest.param("flags : fma avx2 avx512f avx512_vnni", True, id="AVX-512 VNNI"),
        pytest.param("flags : fma avx2 avx_vnni", True, id="AVX VNNI"),
        pytest.param("flags : fma avx2 avx512f", False, id="no VNNI"),
        pytest.param(None, False, id="a system that does not say"),
    ],
)
def test_bytes_are_multiplied_exactly_only_where_the_processor_does_it(
    tmp_path: Path, flags: str | None, exact: bool
) -> None:
    description = tmp_path / "cpuinfo"
    if flags is not None:
        description.write_text(flags)
    assert _multiplies_bytes_exactly(description) is exact


def test_the_slower_exact_product_gives_the_same_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.providers.onnx.embedder._multiplies_bytes_exactly", lambda: False)
    exact = OnnxEmbedder.load(minilm_directory())
    assert ((exact.embed_documents(TEXTS) * minilm().embed_documents(TEXTS)).sum(axis=1) > 0.9999).all()


PIECES = st.sampled_from(
    ["def", "__init__", "a_b", " ", "\n", "\t", "\r", "(", ")", "->", "[CLS]", "[UNK]", "[", "]", "'", '"', "x" * 101,
     "é", "й", "中", "\x00", "\x07", "\x7f", "\u200b", "\ud800", "Ünïcode", "42", "3.14", "camelCase", "№", "👍"]
)  # fmt: skip


@given(st.lists(st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=40)), max_size=6))
def test_counting_word_by_word_is_counting(texts: list[str]) -> None:
    embedder = minilm()
    assert embedder.words is not None
    assert embedder.count(texts) == embedder._count_whole(texts)


def test_every_line_of_this_project_is_counted_as_the_tokenizer_does() -> None:
    lines = [f"{line}\n" for sentence in SENTENCES for line in sentence.split("\n")]
    assert minilm().count(lines) == minilm()._count_whole(lines)
