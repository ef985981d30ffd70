"""How the words of a question stand in the texts of its rows: which of them, and how near to each other.

BM25 knows neither: a row that holds one word ten times can outdo one that holds them all, and words that the question
has side by side mean more where the text has them side by side. Words are looked for as beginnings of words' stems,
letter for letter, which is fast enough for every row of a search and close enough to what the analyser would find.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from strata.retrieval.analyser import beginning_of, query_terms, question_terms

NEAR_CHARACTERS = 40
"""Words that begin so close together stand side by side, or nearly."""
MOST_PAIRS = 24
"""Of a long report the first ones, where it says what it is about."""
MOST_WORDS = 2 * MOST_PAIRS
_MOST_PLACES = 8
_AT_ONCE = 8
"""Bytes that are compared as one number."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Wording:
    """Of each row, 0 to 1, rare words counting more: `near`, the share of the question's neighbouring words that stand
    near each other; `held`, which of the question's words stand there at all, shape (rows, words), True or False;
    `rarity`, the weight of each word."""

    near: Floats
    held: NDArray[np.bool_]
    rarity: Floats

    def share(self, held: NDArray[np.bool_]) -> Floats:
        """The share of the question that these words are; `held` has shape (any number, words)."""
        shares: Floats = (held @ self.rarity) / (self.rarity.sum() or 1.0)
        return shares


def wording(text: str, contents: Sequence[str]) -> Wording:
    """How the question stands in each of the contents; how rare a word is, is counted among them.

    >>> found = wording("copy a file", ["def copy(file): ...", "a copy of each line" + " " * 99 + "of the file", "x"])
    >>> found.near.round(2).tolist(), found.share(found.held).round(2).tolist()
    ([1.0, 0.0, 0.0], [1.0, 1.0, 0.0])
    """
    asked = frozenset(query_terms(text))
    sequence = [term for term in question_terms(text) if term in asked and term.isalnum()]
    pairs = list(dict.fromkeys(pair for pair in pairwise(sequence) if pair[0] != pair[1]))[:MOST_PAIRS]
    words = list(dict.fromkeys([*(word for pair in pairs for word in pair), *sequence]))[:MOST_WORDS]
    number = {word: position for position, word in enumerate(words)}
    beginnings = [beginning_of(word) for word in words]
    pairs_at = np.array([(number[one], number[other]) for one, other in pairs], dtype=np.int64).reshape(-1, 2)
    places = _Places.of([content.lower().replace("ё", "е") for content in contents], beginnings)
    held = places.held()
    rarity = _rarity(held)
    weights = np.minimum(rarity[pairs_at[:, 0]], rarity[pairs_at[:, 1]])
    near = places.near(pairs_at)
    return Wording(near=near @ weights / (weights.sum() or 1.0), held=held, rarity=rarity)


@dataclass(frozen=True, slots=True)
class _Places:
    """Where words begin in texts that lie side by side: `at` ascends for each of the words, which ascend as well.

    All texts and words are looked through at once, because a call for each word of each text takes several times as
    long. Between two texts is more room than what is near.
    """

    at: NDArray[np.int64]
    word: NDArray[np.int64]
    text: NDArray[np.int64]
    texts: int
    words: int

    @classmethod
    def of(cls, texts: Sequence[str], words: Sequence[str]) -> _Places:
        room = "\0" * (NEAR_CHARACTERS + 1)
        ends = np.cumsum([len(text) + len(room) for text in texts])
        at, word = _beginnings("".join([text + room for text in texts]), words)
        return cls(at, word, np.searchsorted(ends, at, side="right"), len(texts), len(words))

    def held(self) -> NDArray[np.bool_]:
        """Which of the words stand in each text at all: shape (texts, words)."""
        held = np.zeros((self.texts, self.words), dtype=np.bool_)
        held[self.text, self.word] = True
        return held

    def near(self, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether two words stand near each other, not at the same place: shape (texts, pairs)."""
        near = np.zeros((self.texts, len(pairs)), dtype=np.bool_)
        first = self._first_ones()
        at, word, text = self.at[first], self.word[first], self.text[first]
        stride = int(at.max(initial=0)) + 2 * NEAR_CHARACTERS + 1
        keys = word * stride + at
        begins, ends = (np.searchsorted(word, pairs[:, 0], side=side) for side in ("left", "right"))
        counts = ends - begins
        pair = np.repeat(np.arange(len(pairs)), counts)
        one = np.arange(len(pair)) + np.repeat(begins - np.cumsum(counts) + counts, counts)
        other = pairs[pair, 1] * stride + at[one]
        within = [np.searchsorted(keys, other + reach) for reach in (-NEAR_CHARACTERS, 0, 1, NEAR_CHARACTERS + 1)]
        found = (within[1] > within[0]) | (within[3] > within[2])
        near[text[one[found]], pair[found]] = True
        return near

    def _first_ones(self) -> NDArray[np.bool_]:
        """Of each word in each text the first few places."""
        number = np.arange(len(self.at))
        begins = np.ones(len(number), dtype=np.bool_)
        begins[1:] = (self.word[1:] != self.word[:-1]) | (self.text[1:] != self.text[:-1])
        first: NDArray[np.bool_] = number - np.maximum.accumulate(np.where(begins, number, 0)) < _MOST_PLACES
        return first


def _beginnings(text: str, words: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every place where a word begins, and the word's number: by word, then by place.

    A table over two letters leaves few places, where a word is compared eight letters at a time.
    """
    if not words:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    width = -(-int(lengths.max()) // _AT_ONCE) * _AT_ONCE
    room = "\0" * (width + _AT_ONCE)
    spelt = len(text) + len(room) + width * np.arange(len(words))
    bytes_of_letters = _bytes_of_letters("".join([text, room, *[word.ljust(width, "\0") for word in words], room]))
    at, word = _first_letters(bytes_of_letters[0], len(text), spelt, lengths)
    masks = np.where(np.arange(width) < lengths[:, None], np.uint8(0xFF), np.uint8(0)).view("<u8")
    for letters in bytes_of_letters:
        eights = np.ndarray(len(letters) - _AT_ONCE, dtype="<u8", buffer=letters, strides=(1,))
        wanted = eights[spelt[:, None] + np.arange(0, width, _AT_ONCE)]
        for part in range(wanted.shape[1]):
            same = eights[at + part * _AT_ONCE] & masks[word, part] == wanted[word, part]
            at, word = at[same], word[same]
    return at, word


def _bytes_of_letters(text: str) -> list[NDArray[np.uint8]]:
    """The last byte of each letter; where there are others than ASCII also the one before it, and so on."""
    if text.isascii():
        return [np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
    letters = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    return [(letters >> np.uint32(bits)).astype(np.uint8) for bits in range(0, int(letters.max()).bit_length(), 8)]


def _first_letters(
    letters: NDArray[np.uint8], count: int, spelt: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of the first `count` places those that have a word's first two letters, or its only one, and the word's number:
    by word, then by place. `spelt` says where in `letters` the words stand."""
    pairs = np.ndarray(len(letters) - 1, dtype="<u2", buffer=letters, strides=(1,)).copy()
    asked = pairs[spelt]
    table = np.zeros(1 << 16, dtype=np.bool_)
    table[asked[lengths > 1]] = True
    places = np.flatnonzero(table.take(pairs[:count]))
    found_pairs = pairs[places]
    order = np.argsort(found_pairs, kind="stable")
    by_pair, found_pairs = places[order], found_pairs[order]
    begins, ends = (np.searchsorted(found_pairs, asked, side=side) for side in ("left", "right"))
    found = [
        by_pair[begin:end] if length > 1 else np.flatnonzero(letters[:count] == letters[place])
        for begin, end, length, place in zip(
            begins.tolist(), ends.tolist(), lengths.tolist(), spelt.tolist(), strict=True
        )
    ]
    return np.concatenate(found), np.repeat(np.arange(len(found)), [len(at) for at in found])


def _rarity(held: NDArray[np.bool_]) -> Floats:
    count, rows = len(held), held.sum(axis=0)
    rarity: Floats = np.log1p((count - rows + 0.5) / (rows + 0.5))
    return rarity if math.isfinite(rarity.sum()) else np.zeros(held.shape[1])
