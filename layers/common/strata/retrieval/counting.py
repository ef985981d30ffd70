"""Texts → their term counts, many texts at a time.

Each distinct token is analysed once; which terms a text has then, and how often, is a matter of numbers: no dictionary
is filled for each text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

import numpy as np

from strata.model.terms import Integers, TermCounts
from strata.retrieval.analyser import terms_of, tokens

_NUMBER = (1 << 32) - 1


def term_counts(texts: Sequence[str]) -> list[TermCounts]:
    """How often `analyse` finds each term in each text, in order."""
    found = list(map(tokens, texts))
    tokens_of_text = list(map(len, found))
    distinct, token = _numbered(chain.from_iterable(found), sum(tokens_of_text))
    terms = list(map(terms_of, distinct))
    terms_of_token = np.fromiter(map(len, terms), dtype=np.int64, count=len(terms))
    words, number = _numbered(chain.from_iterable(terms), int(terms_of_token.sum()))

    taken = terms_of_token[token]
    first = np.cumsum(terms_of_token) - terms_of_token
    place = np.arange(taken.sum()) + np.repeat(first[token] - np.cumsum(taken) + taken, taken)
    text = np.repeat(np.repeat(np.arange(len(texts)), tokens_of_text), taken)

    keys = np.sort(text << 32 | number[place])
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(starts, append=len(keys))
    keys = keys[starts]
    borders = np.searchsorted(keys, np.arange(len(texts) + 1) << 32).tolist()
    numbers = keys & _NUMBER
    return [TermCounts(words, numbers[start:end], counts[start:end]) for start, end in pairwise(borders)]


class _Numbers(dict[str, int]):
    """Each text's place among the distinct ones."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


def _numbered(texts: Iterable[str], count: int) -> tuple[list[str], Integers]:
    """The distinct texts in order of appearance, and the place of each text among them."""
    numbers = _Numbers()
    places = np.fromiter(map(numbers.__getitem__, texts), dtype=np.int64, count=count)
    return list(numbers), places
