"""BERT's forward pass in plain numpy and float64, written from the architecture: the oracle for our ONNX graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
ERF = np.vectorize(math.erf, otypes=[np.float64])


class ReferenceBert:
    """One text at a time, no padding, no mask, no batch."""

    def __init__(self, weights: Mapping[str, NDArray[Any]], *, layers: int = 6, heads: int = 12) -> None:
        self.weights = {name: np.asarray(value, dtype=np.float64) for name, value in weights.items()}
        self.layers = layers
        self.heads = heads

    def sentence_vector(self, token_ids: Sequence[int]) -> Doubles:
        """The unit vector of a sequence that already has its special tokens."""
        x = self.weights["embeddings.word_embeddings.weight"][list(token_ids)]
        x = x + self.weights["embeddings.position_embeddings.weight"][: len(token_ids)]
        x = x + self.weights["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(x, "embeddings.LayerNorm")
        for number in range(self.layers):
            layer = f"encoder.layer.{number}"
            x = self.norm(x + self.attend(x, f"{layer}.attention"), f"{layer}.attention.output.LayerNorm")
            wide = self.linear(x, f"{layer}.intermediate.dense")
            wide = 0.5 * wide * (1.0 + ERF(wide / math.sqrt(2.0)))
            x = self.norm(x + self.linear(wide, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
        mean: Doubles = x.mean(axis=0)
        return mean / np.linalg.norm(mean)

    def attend(self, x: Doubles, name: str) -> Doubles:
        query, key, value = (self.linear(x, f"{name}.self.{part}") for part in ("query", "key", "value"))
        size = x.shape[1] // self.heads
        heads = []
        for head in range(self.heads):
            part = slice(head * size, (head + 1) * size)
            scores = query[:, part] @ key[:, part].T / math.sqrt(size)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            heads.append(weights / weights.sum(axis=1, keepdims=True) @ value[:, part])
        return self.linear(np.concatenate(heads, axis=1), f"{name}.output.dense")

    def linear(self, x: Doubles, name: str) -> Doubles:
        product: Doubles = x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]
        return product

    def norm(self, x: Doubles, name: str) -> Doubles:
        centred = x - x.mean(axis=1, keepdims=True)
        scaled: Doubles = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
