"""Tokens of lines, counted by the embedder; a very long word weighs more than its one token."""

from __future__ import annotations

from collections.abc import Iterable

from strata.ports.embedding import TokenCounter

CHARACTERS_PER_TOKEN = 16


class Weigher:
    """Tokens of lines, each distinct one counted once."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._weights: dict[str, int] = {}

    def prepare(self, texts: Iterable[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._weights]
        if new:
            # The line end may be a token of its own.
            counts = self._counter.count([f"{text}\n" for text in new])
            for text, count in zip(new, counts, strict=True):
                self._weights[text] = max(count, -(-len(text) // CHARACTERS_PER_TOKEN))

    def __call__(self, text: str) -> int:
        if text not in self._weights:
            self.prepare([text])
        return self._weights[text]

    def prepared(self, texts: Iterable[str]) -> list[int]:
        """Those of texts that were prepared."""
        return list(map(self._weights.__getitem__, texts))
