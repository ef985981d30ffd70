"""Tokens of many short texts, counted word by word: each distinct word is tokenised once.

BERT's tokenizers cut at blanks and take every mark for a word of its own before WordPiece sees anything, so the tokens
of a text are those of its words. In plain ASCII words are what is left between blanks and marks; any other text goes
through the tokenizer whole. Counting lines this way takes about a fifth of the time (docs/measurements.md).
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAX_WORDS = 200_000
"""Distinct words that are remembered; then all are forgotten and it begins anew."""

_MARKS = string.punctuation.encode()
_BLANKS = b"\t\n\r "
_WORDS = (string.ascii_letters + string.digits).encode()
_BLANKS_AND_WORDS = _BLANKS + _WORDS
_PLAIN = _MARKS + _BLANKS_AND_WORDS
_WITHOUT_MARKS = bytes.maketrans(_MARKS, b" " * len(_MARKS))


def cuts_at_every_mark(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer is one that this way of counting is right for."""
    kinds = (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.model)
    return [type(kind).__name__ for kind in kinds] == ["BertNormalizer", "BertPreTokenizer", "WordPiece"]


@dataclass(slots=True, kw_only=True)
class WordCounter:
    """`count_whole` counts the tokens of texts as the tokenizer does; `special` are texts that are one token."""

    count_whole: Callable[[Sequence[str]], list[int]]
    special: Sequence[str]
    _tokens: dict[bytes, int] = field(default_factory=dict)
    _never_plain: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        if self.special:
            self._never_plain = re.compile("|".join(map(re.escape, self.special)))

    def count(self, texts: Sequence[str]) -> list[int]:
        counts = [0] * len(texts)
        words_of: dict[int, list[bytes]] = {}
        whole: list[int] = []
        has_special = self._never_plain is not None and self._never_plain.search("\n".join(texts)) is not None
        for place, text in enumerate(texts):
            plain = text.encode() if text.isascii() else None
            if plain is None or plain.translate(None, _PLAIN) or (has_special and self._is_special(text)):
                whole.append(place)
            else:
                words_of[place] = plain.translate(_WITHOUT_MARKS).split()
                counts[place] = len(plain.translate(None, _BLANKS_AND_WORDS))
        self._learn(set(chain.from_iterable(words_of.values())))
        tokens = self._tokens
        for place, words in words_of.items():
            counts[place] += sum(map(tokens.__getitem__, words))
        for place, count in zip(whole, self.count_whole([texts[place] for place in whole]), strict=True):
            counts[place] = count
        return counts

    def _is_special(self, text: str) -> bool:
        return self._never_plain is not None and self._never_plain.search(text) is not None

    def _learn(self, words: set[bytes]) -> None:
        if len(self._tokens) + len(words) > MAX_WORDS:
            self._tokens.clear()
        new = list(words - self._tokens.keys())
        if new:
            self._tokens.update(zip(new, self.count_whole([word.decode() for word in new]), strict=True))
