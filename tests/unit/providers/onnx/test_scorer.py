"""The local cross-encoder with a tiny one made here: it scores a passage by the question's words in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from strata.errors import ConfigurationError, RerankerRejected
from strata.providers.onnx.description import MODEL_FILE, TOKENIZER_FILE
from strata.providers.onnx.scorer import MAX_TOKENS, OnnxScorer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "the", "lease", "runs", "out"]
WEIGHTS = [0.0, 0.0, 0.0, 0.0, 2.0, -2.0, 0.1, 0.5, 0.25, 0.125]


def save_tokenizer(folder: Path) -> None:
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / TOKENIZER_FILE))


def save_model(folder: Path, *, outputs: int = 1, with_types: bool = True, weights: list[float] = WEIGHTS) -> None:
    """Adds the weights of the passage's tokens (of all of them without types): [batch, sequence] → [batch, outputs]."""
    inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if with_types else [])]
    counted = "token_type_ids" if with_types else "attention_mask"
    table = np.array(weights, dtype=np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["weighed"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Cast", [counted], ["types"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["weighed", "mask"], ["masked"]),
        helper.make_node("Mul", ["masked", "types"], ["typed"]),
        helper.make_node("ReduceSum", ["typed", "axis"], ["logit"], keepdims=1),
        helper.make_node("Sub", ["logit", "logit"], ["zero"]),
        helper.make_node("Concat", ["zero", "logit"] if outputs == 2 else ["logit"] * outputs, ["logits"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "scorer",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in inputs],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", outputs])],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([1], dtype=np.int64), "axis")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / MODEL_FILE))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny-reranker"
    folder.mkdir()
    save_tokenizer(folder)
    save_model(folder)
    return folder


def sigmoid(value: float) -> float:
    return float(1 / (1 + np.exp(-value)))


PASSAGES = ["the lease runs out", "bad", "good good", "unknown words", "good"]
EXPECTED = [sigmoid(value) for value in (0.975, -2.0, 4.0, 0.0, 2.0)]


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_passage_is_read_beside_the_question(folder: Path, outputs: int) -> None:
    save_model(folder, outputs=outputs)
    scorer = OnnxScorer.load(folder)
    # The question's own words count for nothing: they are of the other type.
    assert scorer.scores("good", PASSAGES) == pytest.approx(EXPECTED, rel=1e-5)
    assert scorer.scores("good", []) == []


def test_a_score_does_not_depend_on_what_else_is_in_the_call(folder: Path) -> None:
    scorer = OnnxScorer.load(folder)
    many = [PASSAGES[number % 5] + " the" * (number % 7) for number in range(40)]
    together = scorer.scores("bad", many)
    assert together == pytest.approx([scorer.scores("bad", [passage])[0] for passage in many], rel=1e-5)


def test_a_model_without_types_is_given_none(folder: Path) -> None:
    save_model(folder, with_types=False)
    assert OnnxScorer.load(folder).scores("good", ["bad", "good"]) == pytest.approx([0.5, sigmoid(4.0)], rel=1e-5)


def test_long_passages_and_long_questions_are_cut_and_leave_room_for_each_other(folder: Path) -> None:
    scorer = OnnxScorer.load(folder)
    assert scorer.scores("the", ["good " + "unknown " * 5_000])[0] == pytest.approx(sigmoid(2.0), rel=1e-5)
    assert scorer.scores("unknown " * 5_000, ["good"])[0] == pytest.approx(sigmoid(2.0), rel=1e-5)
    assert len(scorer._encoded("unknown " * 5_000, ["good " * 5_000])[0].ids) == MAX_TOKENS


def test_half_a_character_is_no_obstacle(folder: Path) -> None:
    assert OnnxScorer.load(folder).scores("\ud800", ["good \udfff"])[0] == pytest.approx(sigmoid(2.0), rel=1e-5)


def test_another_file_is_another_model(folder: Path) -> None:
    before = OnnxScorer.load(folder).model_id
    assert before.startswith("tiny-reranker-")
    save_model(folder, weights=[value / 2 for value in WEIGHTS])
    assert OnnxScorer.load(folder).model_id != before


@pytest.mark.parametrize("missing", [MODEL_FILE, TOKENIZER_FILE])
def test_a_folder_that_lacks_a_file_says_which(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(ConfigurationError, match=missing):
        OnnxScorer.load(folder)


def test_files_that_are_none_are_refused(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / MODEL_FILE).write_bytes(b"not a graph")
    with pytest.raises(ConfigurationError, match="can't be loaded"):
        OnnxScorer.load(broken)


def test_a_model_that_answers_with_something_else_is_refused(folder: Path) -> None:
    save_model(folder, outputs=3)
    with pytest.raises(RerankerRejected, match=r"\(1, 3\)"):
        OnnxScorer.load(folder).scores("q", ["good"])
    save_model(folder, weights=[float("nan")] * len(WEIGHTS))
    with pytest.raises(RerankerRejected, match="finite"):
        OnnxScorer.load(folder).scores("q", ["good"])
