"""The graph of a small, random BERT: the same rules as the real one's, without a download."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from strata.model.corpus import Vectors
from strata_local.bert import Array, BertShape, _rounded, sentence_graph
from tests.support.bert_reference import ReferenceBert

SHAPE = BertShape(layers=2, heads=4, hidden=32)
WIDE, VOCABULARY, POSITIONS = 64, 50, 20


def random_weights() -> dict[str, Array]:
    draw = np.random.default_rng(3)

    def tensor(*shape: int, around: float = 0.0) -> Array:
        return (around + draw.normal(0.0, 0.3, size=shape)).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": tensor(VOCABULARY, SHAPE.hidden),
        "embeddings.position_embeddings.weight": tensor(POSITIONS, SHAPE.hidden),
        "embeddings.token_type_embeddings.weight": tensor(2, SHAPE.hidden),
    }
    sizes = {"intermediate.dense": (WIDE, SHAPE.hidden), "output.dense": (SHAPE.hidden, WIDE)}
    sizes |= {
        f"attention.{part}": (SHAPE.hidden, SHAPE.hidden)
        for part in ("self.query", "self.key", "self.value", "output.dense")
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(SHAPE.layers):
        for name, size in sizes.items():
            weights[f"encoder.layer.{layer}.{name}.weight"] = tensor(*size)
            weights[f"encoder.layer.{layer}.{name}.bias"] = tensor(size[0])
        norms += [f"encoder.layer.{layer}.{name}" for name in ("attention.output.LayerNorm", "output.LayerNorm")]
    for name in norms:
        weights[f"{name}.weight"] = tensor(SHAPE.hidden, around=1.0)
        weights[f"{name}.bias"] = tensor(SHAPE.hidden)
    return weights


def run(weights: dict[str, Array], tokens: Array, mask: Array, *, int8: bool) -> Vectors:
    graph = sentence_graph(weights, SHAPE, int8=int8).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    answer: Vectors = session.run(None, {"input_ids": tokens, "attention_mask": mask})[0]
    return answer


SEQUENCES = [[1, 7, 9, 30, 2], [1, 49, 2], [1] + [5, 6, 8, 44] * 4 + [2]]


def padded() -> tuple[Array, Array]:
    width = max(map(len, SEQUENCES))
    tokens = np.zeros((len(SEQUENCES), width), dtype=np.int64)
    mask = np.zeros_like(tokens)
    for row, sequence in enumerate(SEQUENCES):
        tokens[row, : len(sequence)], mask[row, : len(sequence)] = sequence, 1
    return tokens, mask


@pytest.mark.parametrize(("int8", "least"), [(False, 0.999999), (True, 0.995)], ids=["fp32", "int8"])
def test_the_graph_agrees_with_the_reference_under_padding(int8: bool, least: float) -> None:
    weights = random_weights()
    reference = ReferenceBert(weights, layers=SHAPE.layers, heads=SHAPE.heads)
    expected = np.stack([reference.sentence_vector(sequence) for sequence in SEQUENCES])
    assert (run(weights, *padded(), int8=int8) * expected).sum(axis=1).min() > least


def test_an_int8_vector_does_not_depend_on_the_texts_beside_it() -> None:
    weights = random_weights()
    tokens, mask = padded()
    together = run(weights, tokens, mask, int8=True)
    for row, sequence in enumerate(SEQUENCES):
        alone = run(weights, tokens[row : row + 1, : len(sequence)], mask[row : row + 1, : len(sequence)], int8=True)
        assert alone[0] == pytest.approx(together[row], abs=1e-5)


def test_rounding_is_undone_by_its_scales_within_half_a_step() -> None:
    weight = random_weights()["encoder.layer.0.intermediate.dense.weight"]
    for axis in (0, 1):
        rounded, scales = _rounded(weight, axis=axis)
        assert rounded.dtype == np.int8
        assert np.abs(rounded).max() == 127
        assert (np.abs(rounded * scales - weight) <= scales * 0.5001).all()


def test_a_row_of_zeros_stays_zero() -> None:
    rounded, scales = _rounded(np.zeros((2, 3), dtype=np.float32), axis=1)
    assert not rounded.any()
    assert np.isfinite(scales).all()
