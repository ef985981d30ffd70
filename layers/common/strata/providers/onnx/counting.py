"""Tokens of many short texts, counted word by word: each distinct word is tokenised once.

BERT's tokenizers cut at blanks and take every mark for a word of its own before WordPiece sees anything, so the tokens
of a text are those of its words. In plain ASCII a regular expression finds the same words; any other text goes through
the tokenizer whole. Counting lines this way takes about a fifth of the time (docs/measurements.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAX_WORDS = 200_000
"""Distinct words that are remembered; then all are forgotten and it begins anew."""

_WORD = re.compile(r"[A-Za-z0-9]+")
_PLAIN = re.compile(r"[\t\n\r\x20-\x7e]*")
_MARKS = re.compile(r"[!-/:-@\[-`{-~]")


def cuts_at_every_mark(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer is one that this way of counting is right for."""
    kinds = (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.model)
    return [type(kind).__name__ for kind in kinds] == ["BertNormalizer", "BertPreTokenizer", "WordPiece"]


@dataclass(slots=True, kw_only=True)
class WordCounter:
    """`count_whole` counts the tokens of texts as the tokenizer does; `special` are texts that are one token."""

    count_whole: Callable[[Sequence[str]], list[int]]
    special: Sequence[str]
    _tokens: dict[str, int] = field(default_factory=dict)
    _never_plain: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        if self.special:
            self._never_plain = re.compile("|".join(map(re.escape, self.special)))

    def count(self, texts: Sequence[str]) -> list[int]:
        counts = [0] * len(texts)
        words_of: dict[int, list[str]] = {}
        whole: list[int] = []
        for place, text in enumerate(texts):
            if self._is_plain(text):
                words_of[place] = _WORD.findall(text)
                counts[place] = len(_MARKS.findall(text))
            else:
                whole.append(place)
        self._learn({word for words in words_of.values() for word in words})
        tokens = self._tokens
        for place, words in words_of.items():
            counts[place] += sum(map(tokens.__getitem__, words))
        for place, count in zip(whole, self.count_whole([texts[place] for place in whole]), strict=True):
            counts[place] = count
        return counts

    def _is_plain(self, text: str) -> bool:
        if not text.isascii() or _PLAIN.fullmatch(text) is None:
            return False
        return self._never_plain is None or self._never_plain.search(text) is None

    def _learn(self, words: set[str]) -> None:
        if len(self._tokens) + len(words) > MAX_WORDS:
            self._tokens.clear()
        new = list(words - self._tokens.keys())
        if new:
            self._tokens.update(zip(new, self.count_whole(new), strict=True))
