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

from strata.retrieval.analyser import analyse, query_terms

NEAR_CHARACTERS = 40
"""Words that begin so close together stand side by side, or nearly."""
MOST_PAIRS = 24
"""Of a long report the first ones, where it says what it is about."""
MOST_WORDS = 2 * MOST_PAIRS
_MOST_PLACES = 8

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
    sequence = [term for term in analyse(text) if term in asked and term.isalnum()]
    pairs = list(dict.fromkeys(pair for pair in pairwise(sequence) if pair[0] != pair[1]))[:MOST_PAIRS]
    words = list(dict.fromkeys([*(word for pair in pairs for word in pair), *sequence]))[:MOST_WORDS]
    number = {word: position for position, word in enumerate(words)}
    beginnings = [_beginning(word) for word in words]
    at = [(number[one], number[other]) for one, other in pairs]
    held = np.zeros((len(contents), len(words)), dtype=np.bool_)
    near = np.zeros((len(contents), len(pairs)))
    for row, content in enumerate(contents):
        folded = content.lower().replace("ё", "е")
        places = [_places(folded, beginning) if beginning in folded else [] for beginning in beginnings]
        held[row] = [bool(found) for found in places]
        near[row] = [bool(places[one] and places[other]) and _are_near(places[one], places[other]) for one, other in at]
    rarity = _rarity(held)
    weights = np.array([min(rarity[one], rarity[other]) for one, other in at])
    return Wording(near=near @ weights / (weights.sum() or 1.0), held=held, rarity=rarity)


def _beginning(stem: str) -> str:
    """What every form of the word begins with: Snowball writes i for a last y."""
    return stem[:-1] if len(stem) > 3 and stem.endswith("i") else stem


def _places(text: str, word: str) -> list[int]:
    places: list[int] = []
    place = text.find(word)
    while place >= 0 and len(places) < _MOST_PLACES:
        places.append(place)
        place = text.find(word, place + 1)
    return places


def _are_near(ones: Sequence[int], others: Sequence[int]) -> bool:
    """Whether any two places differ, and by little."""
    return any(0 < abs(one - other) <= NEAR_CHARACTERS for one in ones for other in others)


def _rarity(held: NDArray[np.bool_]) -> Floats:
    count, rows = len(held), held.sum(axis=0)
    rarity: Floats = np.log1p((count - rows + 0.5) / (rows + 0.5))
    return rarity if math.isfinite(rarity.sum()) else np.zeros(held.shape[1])
