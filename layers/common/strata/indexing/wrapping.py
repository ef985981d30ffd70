"""An embedder around another one: the same model, in another way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strata.model.corpus import Vector, Vectors
from strata.ports.embedding import Embedder


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedEmbedder:
    """The embedder that it wraps, but for what a subclass does in its own way."""

    embedder: Embedder

    @property
    def model_id(self) -> str:
        return self.embedder.model_id

    @property
    def dimension(self) -> int:
        return self.embedder.dimension

    @property
    def max_tokens(self) -> int:
        return self.embedder.max_tokens

    @property
    def languages(self) -> frozenset[str]:
        return self.embedder.languages

    def count(self, texts: Sequence[str]) -> list[int]:
        return self.embedder.count(texts)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self.embedder.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        return self.embedder.embed_query(text)
