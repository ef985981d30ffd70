"""Vectors that were stored beforehand: everything is measured but the embedder's own work."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from strata.indexing.wrapping import WrappedEmbedder
from strata.model.corpus import Vector, Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVectors(WrappedEmbedder):
    """An embedder that counts tokens as `embedder` does, and looks vectors up.

    The vectors are made from a hash of the text, not by the model: no step of indexing looks at a vector's numbers, and
    a vector index is not built at these sizes. One lookup costs about what one in a file of vectors would.
    """

    rows: int = 4_096
    _vectors: Vectors = field(init=False, repr=False)

    def __post_init__(self) -> None:
        made = np.random.default_rng(1).standard_normal((self.rows, self.embedder.dimension)).astype(np.float32)
        object.__setattr__(self, "_vectors", made / np.linalg.norm(made, axis=1, keepdims=True))

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        places = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") for text in texts]
        stored: Vectors = self._vectors[[place % self.rows for place in places]]
        return stored

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self.embed_documents([text])[0]
        return vector
