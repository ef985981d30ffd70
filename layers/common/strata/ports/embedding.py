"""Text → vectors, and how much of a text a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from strata.model.corpus import Vector, Vectors


class TokenCounter(Protocol):
    @property
    def max_tokens(self) -> int:
        """What one embedded text may hold, special tokens taken off already."""
        ...

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text as the embedder sees it, in order, special tokens not counted; not truncated.

        Of ASCII text a token takes a character at least, but for one that may stand before the text.
        """
        ...


class Embedder(TokenCounter, Protocol):
    """Texts → unit vectors of one model. Never called with blank text; truncates what is over its limit."""

    @property
    def model_id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def languages(self) -> frozenset[str]:
        """ISO 639-1 codes of the languages whose meaning the model knows; empty where that is not known."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Raises `EmbedderUnavailable` (retry) or `EmbedderRejected` (wrong count, dimension, zero or non-finite)."""
        ...

    def embed_query(self, text: str) -> Vector: ...
