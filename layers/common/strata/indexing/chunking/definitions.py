"""Which definitions a chunk of source shows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from strata.indexing.parsed import Symbol
from strata.model.corpus import Span


class Definitions:
    """The definitions of one document, in source order; `first` is the number of its first line."""

    def __init__(self, symbols: Sequence[Symbol], lines: Sequence[str], *, first: int) -> None:
        self._symbols = symbols
        self._lines = lines
        self._first = first
        self._starts = [symbol.span.start for symbol in symbols]
        self._around = _parents(symbols)

    def within(self, span: Span) -> list[Symbol]:
        """The outermost definitions that begin in these lines, after the innermost one that the lines go on with."""
        first = bisect_left(self._starts, span.start)
        within: list[Symbol] = []
        for symbol in self._symbols[first : bisect_right(self._starts, span.end)]:
            if not within or symbol.span.start > within[-1].span.end:
                within.append(symbol)
        index = first - 1
        while index >= 0 and self._symbols[index].span.end < span.start:
            index = self._around[index]
        around = self._symbols[index] if index >= 0 else None
        if around and (not within or self._has_code(span.start, within[0].span.start)):
            return [around, *within]
        return within

    def _has_code(self, start: int, end: int) -> bool:
        lines = self._lines[start - self._first : end - self._first]
        return any(line.strip() and not line.lstrip().startswith("#") for line in lines)


def _parents(symbols: Sequence[Symbol]) -> list[int]:
    """For each definition the index of the one around it, or -1."""
    parents: list[int] = []
    around: list[int] = []
    for index, symbol in enumerate(symbols):
        while around and symbols[around[-1]].span.end < symbol.span.start:
            around.pop()
        parents.append(around[-1] if around else -1)
        around.append(index)
    return parents
