"""An embedder with faults, chosen by an environment variable that only tests know: `failing=0.3`, `slow=0.5`,
`short=0.2` (too few vectors), `nan=0.2`; several with commas.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from functools import cache

import numpy as np

from strata.errors import EmbedderUnavailable
from strata.model.corpus import Vector, Vectors
from strata.providers.hashed.embedder import HashedEmbedder

VARIABLE = "STRATA_TEST_EMBEDDER"


class ShakyEmbedder:
    """`HashedEmbedder`, but for its faults."""

    def __init__(self, faults: dict[str, float], seed: int) -> None:
        self._real = HashedEmbedder()
        self._faults = faults
        self._random = random.Random(seed)

    @property
    def model_id(self) -> str:
        return self._real.model_id

    @property
    def dimension(self) -> int:
        return self._real.dimension

    @property
    def max_tokens(self) -> int:
        return self._real.max_tokens

    @property
    def languages(self) -> frozenset[str]:
        return self._real.languages

    def count(self, texts: Sequence[str]) -> list[int]:
        return self._real.count(texts)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if self._hits("failing"):
            raise EmbedderUnavailable
        time.sleep(self._faults.get("slow", 0.0))
        vectors = self._real.embed_documents(texts)
        if self._hits("short"):
            return vectors[:-1]
        if self._hits("nan"):
            vectors = np.array(vectors)
            vectors[0, 0] = np.nan
        return vectors

    def embed_query(self, text: str) -> Vector:
        return self._real.embed_query(text)

    def _hits(self, fault: str) -> bool:
        return self._random.random() < self._faults.get(fault, 0.0)


@cache
def shaky_embedder() -> ShakyEmbedder:
    parts = dict(part.split("=") for part in os.environ[VARIABLE].split(","))
    seed = int(parts.pop("seed", "0"))
    return ShakyEmbedder({name: float(value) for name, value in parts.items()}, seed)
