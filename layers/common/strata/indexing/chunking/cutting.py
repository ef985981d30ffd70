"""One document → pieces of whole lines, and the chunks that are made of them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from strata.indexing.chunking.definitions import Definitions
from strata.indexing.chunking.headers import Header
from strata.indexing.chunking.long_lines import parts_of_line
from strata.indexing.chunking.weighing import Weigher
from strata.indexing.parsed import DEFAULT_PRICE, ParsedDocument, Symbol
from strata.model.corpus import TABLE_HEADER, TOKENS, Chunk, Layer, Span

_LEAD_SHARE = 4
"""A heading, with what little stands under it, takes at most a quarter of a chunk that a long line goes on with."""
_SYMBOL_SHARE = 8
_MOST_SYMBOLS = 40


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines `start` up to `end` (exclusive, counted from 0 in the document), or `text`, what it holds of them."""

    start: int
    end: int
    text: str | None = None


class Cutter:
    """Cuts one document."""

    def __init__(
        self,
        parsed: ParsedDocument,
        lines: list[str],
        header: Header,
        weigher: Weigher,
        *,
        overlap: int,
    ) -> None:
        self._parsed = parsed
        self._lines = lines
        self._header = header.text
        self._weigher = weigher
        self._symbol_tokens = header.limit // _SYMBOL_SHARE if parsed.symbols else 0
        self._budget = max(1, header.limit - header.weight - self._symbol_tokens)
        self._overlap = overlap
        self._first = parsed.document.span.start if parsed.verbatim else 1
        self._surely_fits = (
            not parsed.verbatim and not parsed.tables and _most_tokens(parsed.document.content, lines) <= self._budget
        )

    @property
    def layer(self) -> Layer:
        return self._parsed.document.layer

    def weighed_texts(self) -> Sequence[str]:
        """What will be asked for the tokens of."""
        parsed, lines = self._parsed, () if self._surely_fits else self._lines
        if not parsed.tables and not parsed.symbols:
            return lines
        headers = (table.header for table in parsed.tables)
        return [*lines, *headers, *(symbol.qualified_name for symbol in parsed.symbols)]

    def chunk(self, path: str, ordinal: int, piece: Piece) -> Chunk:
        document = self._parsed.document
        span = document.span
        if self._parsed.verbatim:
            span = Span(start=self._first + piece.start, end=self._first + piece.end - 1)
        title, header, metadata = document.title, self._header, document.metadata
        if self._parsed.symbols and (symbols := self._definitions.within(span)):
            title, named = self._named(symbols)
            header = f"{header}\n{named}" if named else header
            names = [symbol.qualified_name for symbol in symbols][:_MOST_SYMBOLS]
            metadata = {**metadata, "symbols": names} | ({"qualified_name": names[0]} if len(names) == 1 else {})
        if self._parsed.tables and (table := self._tables.get(piece.start)):
            header = f"{header}\n{table}"
            metadata = {**metadata, TABLE_HEADER: table}
        if self._parsed.verbatim and piece.text is None:
            metadata = {**metadata, TOKENS: self._sums[piece.end] - self._sums[piece.start]}
        return Chunk(
            path=path,
            layer=document.layer,
            ordinal=ordinal,
            title=title,
            context=header,
            content=piece.text if piece.text is not None else "\n".join(self._lines[piece.start : piece.end]),
            span=span,
            metadata=metadata,
        )

    def pieces(self) -> Iterator[Piece]:
        """The pieces in order; together they hold every line that is not blank."""
        start, done, end = 0, 0, len(self._lines)
        if self._surely_fits:
            if stripped := self._stripped(start, end):
                yield stripped
            return
        while start < end:
            if (line := self._long_line(start)) is not None:
                yield from self._parts(start, line)
                start = done = line + 1
                continue
            done = self._cut_after(start, done)
            if stripped := self._stripped(start, done):
                yield stripped
            start = self._resumed(start, done)

    def _room(self, start: int) -> int:
        """What a chunk that begins here may hold: a table's later rows bring their header along."""
        if table := self._tables.get(start):
            return max(1, self._budget - self._weigher(table))
        return self._budget

    def _cut_after(self, start: int, done: int) -> int:
        """The best place to end a chunk that begins at `start`; lines before `done` are in the chunk before it."""
        room = self._room(start)
        furthest = bisect_right(self._sums, self._sums[start] + room) - 1
        if furthest >= len(self._lines):
            return len(self._lines)
        best, best_price = furthest, float("inf")
        for cut in range(furthest, max(start, done), -1):
            price = self._prices[cut] + 1 - (self._sums[cut] - self._sums[start]) / room
            if price < best_price:
                best, best_price = cut, price
        return best

    def _stripped(self, start: int, end: int) -> Piece | None:
        while start < end and not self._lines[start].strip():
            start += 1
        while end > start and not self._lines[end - 1].strip():
            end -= 1
        return Piece(start, end) if start < end else None

    def _resumed(self, start: int, cut: int) -> int:
        """Where the next chunk begins: some lines before the cut, if it still gets beyond the cut."""
        if not self._overlap or cut >= len(self._lines):
            return cut
        goes_on = cut
        while goes_on < len(self._lines) - 1 and not self._lines[goes_on].strip():
            goes_on += 1
        resumed = cut
        for line in range(cut - 1, start, -1):
            needed = self._sums[goes_on + 1] - self._sums[line]
            if self._sums[cut] - self._sums[line] > self._overlap or needed > self._budget or self._uncut[line]:
                break
            if self._lines[line].strip():
                resumed = line
        return resumed

    @cached_property
    def _weights(self) -> list[int]:
        return self._weigher.prepared(self._lines)

    @cached_property
    def _sums(self) -> list[int]:
        return [0, *accumulate(self._weights)]

    @cached_property
    def _uncut(self) -> bytearray:
        """1 where a line belongs to a fence or a table: nothing to begin with."""
        uncut = bytearray(len(self._lines))
        for whole in self._parsed.wholes:
            start, end = whole.span.start - self._first, whole.span.end - self._first + 1
            uncut[start:end] = b"\1" * (end - start)
        return uncut

    @cached_property
    def _prices(self) -> list[float]:
        prices = [self._parsed.prices.get(self._first + index, DEFAULT_PRICE) for index in range(len(self._lines) + 1)]
        for whole in self._parsed.wholes:
            start, end = whole.span.start - self._first, whole.span.end - self._first + 1
            if self._sums[end] - self._sums[start] <= self._budget:
                for index in range(start + 1, end):
                    prices[index] += whole.price
        return prices

    @cached_property
    def _tables(self) -> dict[int, str]:
        """The header's line by the row that a chunk may begin with; a very wide header is shortened."""
        headers: dict[int, str] = {}
        for table in self._parsed.tables:
            header = table.header
            while self._weigher(header) > self._budget // 2:
                header = header[: len(header) * 3 // 4]
            rows = range(table.rows.start - self._first, table.rows.end - self._first + 1)
            headers |= dict.fromkeys(rows, header)
        return headers

    @cached_property
    def _definitions(self) -> Definitions:
        return Definitions(self._parsed.symbols, self._lines, first=self._first)

    def _named(self, symbols: Sequence[Symbol]) -> tuple[str, str]:
        """The title and the header's line: as many names as there is room for."""
        names: list[str] = []
        room = self._symbol_tokens
        for symbol in symbols:
            room -= self._weigher(symbol.qualified_name) + 1
            if room < 0:
                break
            names.append(symbol.qualified_name)
        return ", ".join(names[:3]) or symbols[0].qualified_name, ", ".join(names)

    def _long_line(self, start: int) -> int | None:
        """The line over the limit that stands here, or behind the heading that the section begins with here."""
        if self._weights[start] > self._room(start):
            return start
        if start or not self._parsed.document.section:
            return None
        for line in range(1, len(self._lines)):
            if self._sums[line] * _LEAD_SHARE > self._budget:
                return None
            if self._weights[line] > self._budget and line not in self._tables and self._lines[line].strip():
                return line
        return None

    def _parts(self, first: int, index: int) -> Iterator[Piece]:
        """A line over the limit in parts that fit, none of them blank; the lines from `first` on stand before them."""
        text, lead = "".join(f"{line}\n" for line in self._lines[first:index]), self._sums[index] - self._sums[first]
        for part in parts_of_line(self._lines[index], self._weigher, room=self._room(index), lead=lead):
            yield Piece(first, index + 1, f"{text}{part}")
            first, text = index, ""


def _most_tokens(content: str, lines: Sequence[str]) -> float:
    """As many as it would be if each character, each line's end and its begin were a token; not known but for ASCII."""
    return len(content) + 2 * len(lines) if content.isascii() else math.inf
