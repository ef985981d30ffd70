"""`HashedEmbedder`: words and their trigrams, hashed into 256 dimensions. For tests: fast, deterministic, no model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar
from zlib import crc32

import numpy as np

from strata.model.corpus import Vector, Vectors

TOKENS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class HashedEmbedder:
    """Texts that share words, or parts of words, get near vectors; nothing else is known about them."""

    model_id: ClassVar[str] = "hashed-256"
    dimension: ClassVar[int] = 256
    max_tokens: ClassVar[int] = 254
    languages: ClassVar[frozenset[str]] = frozenset()

    def count(self, texts: Sequence[str]) -> list[int]:
        """Words and marks of each text, in order.

        >>> HashedEmbedder().count(["def run(self):", ""])
        [6, 0]
        """
        return [sum(1 for _ in TOKENS.finditer(text)) for text in texts]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, in order; a blank text is a `ValueError`."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        if not text.strip():
            raise ValueError("A blank text has no vector.")
        tokens = [match.group().casefold() for match in TOKENS.finditer(text)][: self.max_tokens]
        sums = np.zeros(self.dimension, dtype=np.float64)
        for feature, weight in _features(tokens):
            # Two hashes a feature: one can't cancel another's sign everywhere.
            for salt in ("a", "b"):
                number = crc32(f"{salt}{feature}".encode("utf-8", "surrogatepass"))
                sums[number % self.dimension] += weight if number & 0x8000_0000 else -weight
        length = float(np.linalg.norm(sums))
        if length == 0.0:
            sums[crc32(text.encode("utf-8", "surrogatepass")) % self.dimension], length = 1.0, 1.0
        return (sums / length).astype(np.float32)


def _features(tokens: Sequence[str]) -> Iterator[tuple[str, float]]:
    """The whole word at full weight, its trigrams (with borders) sharing half of that, marks at a tenth."""
    for token in tokens:
        if not (token[0].isalnum() or token[0] == "_"):
            yield token, 0.1
            continue
        yield f"={token}", 1.0
        bordered = f"^{token}$"
        trigrams = [bordered[start : start + 3] for start in range(len(bordered) - 2)]
        for trigram in trigrams:
            yield trigram, 0.5 / len(trigrams) ** 0.5
