"""How long a text is for the chunker, where the embedder's own tokens say nothing.

A tokenizer takes words of an alphabet that it was not made for apart into letters: 256 tokens are 1,000 characters of
English and 200 of Russian. The vector of such a text says next to nothing either way, and what finds it are its words;
cut so short, what a page says together stands in chunks apart. So a word that the embedder does not understand counts
by its letters, as a tokenizer of its language would count it, and the embedder sees the beginning of such a chunk.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from strata.ports.embedding import Embedder, TokenCounter
from strata.retrieval.languages import foreign_words

LETTERS_PER_TOKEN = 3
"""Measured on Russian pages: BM25 alone finds more with 3 or 4 than with 2 (docs/measurements.md)."""


def text_counter(embedder: Embedder) -> TokenCounter:
    """What counts tokens for the chunker: the embedder, or for one that knows some alphabets only, one that counts the
    words of others by their letters."""
    foreign = foreign_words(embedder.languages)
    return embedder if foreign is None else _ByLetters(embedder=embedder, foreign=foreign)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ByLetters:
    """A `TokenCounter`."""

    embedder: Embedder
    foreign: re.Pattern[str]

    @property
    def max_tokens(self) -> int:
        return self.embedder.max_tokens

    def count(self, texts: Sequence[str]) -> list[int]:
        known = self.embedder.count([text if text.isascii() else self.foreign.sub(" ", text) for text in texts])
        return [
            tokens if text.isascii() else tokens + self._by_letters(text)
            for tokens, text in zip(known, texts, strict=True)
        ]

    def _by_letters(self, text: str) -> int:
        return -(-sum(map(len, self.foreign.findall(text))) // LETTERS_PER_TOKEN)
