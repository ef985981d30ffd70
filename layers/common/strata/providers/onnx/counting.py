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
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAX_WORDS = 100_000
"""Distinct words that are remembered, about 15 MB; then all are forgotten and it begins anew."""

_MARKS = string.punctuation.encode()
_WORDS = (string.ascii_letters + string.digits).encode()
_PLAIN = _MARKS + _WORDS + b"\t\n\r "
_END = b"\0"
"""Between texts: none that is plain holds it."""
_WORD, _MARK, _BORDER = 1, 2, 3
_KINDS = bytes(
    _WORD if code in _WORDS else _MARK if code in _MARKS else _BORDER if code in _END else 0 for code in range(256)
)
_WORDS_ALONE = bytes.maketrans(_MARKS + _END, b" " * len(_MARKS + _END))


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
        plain = self._plain(texts)
        counts = np.empty(len(texts), dtype=np.int64)
        counts[plain] = self._count_plain(list(compress(texts, plain)))
        counts[~plain] = self.count_whole(list(compress(texts, ~plain)))
        counted: list[int] = counts.tolist()
        return counted

    def _plain(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Which texts are made of ASCII letters, digits, marks and blanks, and hold none that is one token."""
        plain = np.fromiter(map(str.isascii, texts), dtype=np.bool_, count=len(texts))
        together = "".join(compress(texts, plain))
        if together.encode().translate(None, _PLAIN):
            plain &= [not text.encode("utf-8", "replace").translate(None, _PLAIN) for text in texts]
        if self._never_plain is not None and self._never_plain.search(together):
            plain &= [not self._never_plain.search(text) for text in texts]
        return plain

    def _count_plain(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Their marks, and the tokens of the words between them: of all texts at once, by where each of them ends."""
        bytes_of_all = _END.decode().join((*texts, "")).encode()
        words = bytes_of_all.translate(_WORDS_ALONE).split()
        self._learn(set(words))
        tokens = np.zeros(len(words) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(self._tokens.__getitem__, words), dtype=np.int64, count=len(words)), out=tokens[1:])
        kinds = np.frombuffer(bytes_of_all.translate(_KINDS), dtype=np.uint8)
        word_ends = np.flatnonzero((kinds[:-1] == _WORD) & (kinds[1:] != _WORD))
        ends = np.flatnonzero(kinds == _BORDER)
        marks = np.flatnonzero(kinds == _MARK)
        before = tokens[np.searchsorted(word_ends, ends)] + np.searchsorted(marks, ends)
        return np.diff(before, prepend=0)

    def _learn(self, words: set[bytes]) -> None:
        if len(self._tokens) + len(words) > MAX_WORDS:
            self._tokens.clear()
        new = list(words.difference(self._tokens))  # looks at these words alone; a view's `-` at all that are known
        if new:
            self._tokens.update(zip(new, self.count_whole([word.decode() for word in new]), strict=True))
