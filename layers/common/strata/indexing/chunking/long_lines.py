"""A line that is over the limit by itself, in parts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from strata.indexing.chunking.weighing import Weigher

_WORDS = re.compile(r"\S+\s{0,16}|\s+")
_SENTENCE_END = re.compile(r"[.!?…。！？]['\"»”)\]]*\s*$")


def parts_of_line(line: str, weigher: Weigher, *, room: int, lead: int) -> Iterator[str]:
    """Parts of at most `room` tokens, none of them blank: cut after a sentence where one ends in the second half of a
    part, else at a blank, else between two characters. The first part leaves room for `lead` tokens.
    """
    words = _WORDS.findall(line)
    weigher.prepare(words)
    first_room = room - lead
    units = [unit for word in words for unit in _characters(word, weigher, first_room)]
    sums = [0, *accumulate(weigher(unit) for unit in units)]
    start, left = 0, first_room
    while start < len(units):
        furthest = max(bisect_right(sums, sums[start] + left) - 1, start + 1)
        cut = furthest
        if furthest < len(units):
            for position in range(furthest, start, -1):
                if sums[position] - sums[start] < left / 2:
                    break
                if _SENTENCE_END.search(units[position - 1]):
                    cut = position
                    break
        if part := "".join(units[start:cut]).strip():
            yield part
            left = room
        start = cut


def _characters(word: str, weigher: Weigher, room: int) -> Iterator[str]:
    if weigher(word) <= room or len(word) == 1:
        yield word
        return
    size = max(1, len(word) * room // (2 * weigher(word)))
    pieces = [word[at : at + size] for at in range(0, len(word), size)]
    weigher.prepare(pieces)
    for piece in pieces:
        yield from _characters(piece, weigher, room)
