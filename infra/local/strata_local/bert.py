"""BERT weights → an ONNX graph from token ids to unit vectors, in fp32 or in int8; no torch needed.

    ids, mask → embeddings → encoder layers → mean over the real tokens → unit length

In int8 each linear layer but the attention's values multiplies bytes: its weights are rounded once, one scale an
output channel; its input is rounded while the graph runs, one scale a token. (onnxruntime's own dynamic quantisation
takes one scale for the whole input, so that a text's vector depends on the texts beside it; docs/measurements.md has
both.) Word vectors that come as nibbles stay nibbles: a row is scaled when it is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]
Weights = Mapping[str, Array]
"""Tensors by name, as `model.safetensors` has them: a linear layer's weight has shape (out, in)."""

OPSET = 20
IR_VERSION = 10
RUNTIME_DOMAIN = "com.microsoft"
MASKED = -10_000.0
INT8_MAX = 127
UINT8_ZERO = 128
WORDS = "embeddings.word_embeddings.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class BertShape:
    layers: int = 6
    heads: int = 12
    hidden: int = 384
    epsilon: float = 1e-12

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads


@dataclass(frozen=True, slots=True, kw_only=True)
class Nibbles:
    """A matrix in four bits: `values` are int8 from -8 to 7, shape (rows, columns); `scales` are float32, one for each
    block of so many columns, shape (rows, columns / block).
    """

    values: Array
    scales: Array

    @property
    def block(self) -> int:
        return int(self.values.shape[1] // self.scales.shape[1])

    def matrix(self) -> Array:
        """The numbers that it stands for, float32."""
        scaled: Array = self.values * np.repeat(self.scales, self.block, axis=1)
        return scaled


@dataclass(slots=True)
class Graph:
    """Nodes and constants as they are added; every value has the name of the node that makes it."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def constant(self, name: str, value: Array) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def nibbles(self, name: str, values: Array) -> str:
        """Signed four-bit numbers, two to a byte; the first of each two is the low half."""
        low, high = (values.astype(np.uint8) & 0x0F).reshape(-1, 2).T
        packed = TensorProto(name=name, data_type=TensorProto.INT4, dims=values.shape)
        packed.raw_data = (low | high << 4).tobytes()
        self.constants[name] = packed
        return name

    def integers(self, *values: int) -> str:
        return self.constant("i64." + ".".join(map(str, values)), np.array(values, dtype=np.int64))

    def floats(self, value: float) -> str:
        return self.constant(f"f32.{value}", np.array(value, dtype=np.float32))

    def node(self, operator: str, *inputs: str, name: str | None = None, domain: str = "", **attributes: Any) -> str:
        output = name or f"{operator}.{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, domain=domain, **attributes))
        return output


Linear = Callable[[Graph, str, str, Array, Array], str]
"""graph, name, input, weight of shape (in, out), bias → output."""


def sentence_graph(
    weights: Weights, shape: BertShape, *, int8: bool, words: Nibbles | None = None, centre: Array | None = None
) -> onnx.ModelProto:
    """`input_ids` and `attention_mask` (int64, batch × tokens) → `embedding` (float32, batch × hidden, unit rows).

    `words` are the word vectors where `weights` do not have them. `centre` is taken off each unit vector before that is
    made one again: what all texts have in common says nothing of any.
    """
    graph = Graph()
    ids, mask = "input_ids", "attention_mask"
    real = graph.node("Cast", mask, to=TensorProto.FLOAT)
    hidden = _embeddings(graph, weights, shape, ids, words if words is not None else weights[WORDS], int8=int8)
    masked = graph.node("Mul", graph.node("Sub", graph.floats(1.0), real), graph.floats(MASKED))
    bias = graph.node("Unsqueeze", masked, graph.integers(1, 2))
    linear = _int8_linear if int8 else _linear
    for layer in range(shape.layers):
        hidden = _encoder_layer(graph, weights, shape, layer, hidden, bias=bias, linear=linear)
    real = graph.node("Unsqueeze", real, graph.integers(2))
    summed = graph.node("ReduceSum", graph.node("Mul", hidden, real), graph.integers(1), keepdims=0)
    count = graph.node("ReduceSum", real, graph.integers(1), keepdims=0)
    pooled = graph.node("Div", summed, count)
    if centre is not None:
        unit = graph.node("LpNormalization", pooled, axis=-1, p=2)
        pooled = graph.node("Sub", unit, graph.constant("centre", centre.astype(np.float32)))
    graph.node("LpNormalization", pooled, name="embedding", axis=-1, p=2)

    domains = [RUNTIME_DOMAIN] if int8 or words is not None else []
    tokens = ["batch", "tokens"]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "sentence",
            [helper.make_tensor_value_info(name, TensorProto.INT64, tokens) for name in (ids, mask)],
            [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", shape.hidden])],
            list(graph.constants.values()),
        ),
        opset_imports=[helper.make_opsetid("", OPSET), *(helper.make_opsetid(name, 1) for name in domains)],
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(model)
    return model


def _embeddings(
    graph: Graph, weights: Weights, shape: BertShape, ids: str, words: Array | Nibbles, *, int8: bool
) -> str:
    if isinstance(words, Nibbles):
        word = graph.node(
            "GatherBlockQuantized",
            graph.nibbles("words", words.values),
            ids,
            graph.constant("words.scales", words.scales),
            domain=RUNTIME_DOMAIN,
            gather_axis=0,
            quantize_axis=1,
            block_size=words.block,
        )
    elif int8:
        rounded, scales = _rounded(words, axis=1)
        row = graph.node("Gather", graph.constant("words", rounded), ids)
        scale = graph.node("Gather", graph.constant("words.scales", scales), ids)
        word = graph.node("Mul", graph.node("Cast", row, to=TensorProto.FLOAT), scale)
    else:
        word = graph.node("Gather", graph.constant("words", words), ids)
    # A single text has no second segment, so every token is of type 0.
    positions = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    width = graph.node("Shape", ids, start=1, end=2)
    position = graph.node("Slice", graph.constant("positions", positions), graph.integers(0), width, graph.integers(0))
    return _layer_norm(graph, weights, shape, "embeddings.LayerNorm", graph.node("Add", word, position))


def _encoder_layer(
    graph: Graph, weights: Weights, shape: BertShape, layer: int, hidden: str, *, bias: str, linear: Linear
) -> str:
    at = f"encoder.layer.{layer}."

    def dense(name: str) -> tuple[Array, Array]:
        return weights[f"{at}{name}.weight"].T, weights[f"{at}{name}.bias"]

    (query, query_bias), (key, key_bias) = dense("attention.self.query"), dense("attention.self.key")
    # The attention's 1/sqrt(head size) is folded into the query; the two products become one.
    scale = np.float32(1.0 / np.sqrt(shape.head_size))
    both = linear(
        graph,
        f"{at}query_key",
        hidden,
        np.concatenate([query * scale, key], axis=1),
        np.concatenate([query_bias * scale, key_bias]),
    )
    queries, keys = f"{at}query", f"{at}key"
    graph.nodes.append(helper.make_node("Split", [both], [queries, keys], name=f"{at}split", axis=-1, num_outputs=2))
    # Rounding the values costs more than rounding all the rest, and they are a twelfth of the work: never rounded.
    values = _linear(graph, f"{at}value", hidden, *dense("attention.self.value"))

    def heads(part: str, *order: int) -> str:
        split = graph.node("Reshape", part, graph.integers(0, 0, shape.heads, shape.head_size))
        return graph.node("Transpose", split, perm=order)

    scores = graph.node("MatMul", heads(queries, 0, 2, 1, 3), heads(keys, 0, 2, 3, 1))
    attention = graph.node("Softmax", graph.node("Add", scores, bias), axis=-1)
    mixed = graph.node("Transpose", graph.node("MatMul", attention, heads(values, 0, 2, 1, 3)), perm=[0, 2, 1, 3])
    mixed = graph.node("Reshape", mixed, graph.integers(0, 0, shape.hidden))

    attended = linear(graph, f"{at}attention.output", mixed, *dense("attention.output.dense"))
    hidden = _layer_norm(graph, weights, shape, f"{at}attention.output.LayerNorm", graph.node("Add", attended, hidden))
    wide = graph.node("Gelu", linear(graph, f"{at}intermediate", hidden, *dense("intermediate.dense")))
    narrow = linear(graph, f"{at}output", wide, *dense("output.dense"))
    return _layer_norm(graph, weights, shape, f"{at}output.LayerNorm", graph.node("Add", narrow, hidden))


def _layer_norm(graph: Graph, weights: Weights, shape: BertShape, name: str, hidden: str) -> str:
    scale = graph.constant(f"{name}.weight", weights[f"{name}.weight"])
    shift = graph.constant(f"{name}.bias", weights[f"{name}.bias"])
    return graph.node("LayerNormalization", hidden, scale, shift, axis=-1, epsilon=shape.epsilon)


def _linear(graph: Graph, name: str, hidden: str, weight: Array, bias: Array) -> str:
    product = graph.node("MatMul", hidden, graph.constant(f"{name}.weight", weight))
    return graph.node("Add", product, graph.constant(f"{name}.bias", bias))


def _int8_linear(graph: Graph, name: str, hidden: str, weight: Array, bias: Array) -> str:
    """Each token's row is divided by its greatest absolute value, rounded to a byte, multiplied, and scaled back."""
    rounded, scales = _rounded(weight, axis=0)
    greatest = graph.node("ReduceMax", graph.node("Abs", hidden), graph.integers(-1), keepdims=1)
    step = graph.floats(1.0 / INT8_MAX)
    zero = graph.constant("u8.zero", np.array(UINT8_ZERO, dtype=np.uint8))
    row = graph.node("QuantizeLinear", graph.node("Div", hidden, greatest), step, zero)
    product = graph.node(
        "MatMulIntegerToFloat",
        row,
        graph.constant(f"{name}.weight", rounded),
        step,
        graph.constant(f"{name}.scales", scales.reshape(-1)),
        zero,
        domain=RUNTIME_DOMAIN,
    )
    return graph.node("Add", graph.node("Mul", product, greatest), graph.constant(f"{name}.bias", bias))


def _rounded(weight: Array, *, axis: int) -> tuple[Array, Array]:
    """Signed bytes and the float32 scales that undo them: the greatest absolute value along `axis` becomes ±127."""
    scales = (np.abs(weight).max(axis=axis, keepdims=True) / INT8_MAX).astype(np.float32)
    # A row of zeros stays zero with any scale.
    scales[scales == 0] = 1.0
    return np.clip(np.rint(weight / scales), -INT8_MAX, INT8_MAX).astype(np.int8), scales
