"""Passages → chunks that fit the embedder, cut where it hurts least.

A chunk takes as many whole lines as fit; among the places to cut, the cheapest wins, where a cut that leaves the
chunk half empty costs a half. So a chunk ends at the border of a section, a definition or a paragraph if one is near
the limit, and a definition, a fence or a table that fits by itself is not cut. Blank lines at the ends are left out:
no chunk is blank, and between the lines of its span the source is its content.

One exception: a line that is over the limit by itself is cut inside, after a sentence, else at a blank, else between
two characters. Its pieces are chunks of their own that share the line's span; each is a part of that line. Where such a
line comes right after a section's heading, the first piece begins with the heading, which says nothing alone.

Tokens are counted once a distinct line, in one call for many files. A line also weighs at least a token per
`CHARACTERS_PER_TOKEN` characters: tokenizers make a single token of a very long word.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nlargest
from itertools import accumulate, chain
from typing import NamedTuple

from strata.indexing.passages import DEFAULT_PRICE, Passage, Symbol
from strata.indexing.reading import source_lines
from strata.model.corpus import (
    BLANKS_BEFORE,
    TABLE_HEADER,
    TOKENS,
    VERBATIM_LAYERS,
    Chunk,
    Document,
    Layer,
    Span,
)
from strata.ports.embedding import TokenCounter

CHARACTERS_PER_TOKEN = 16
_HEADER_SHARE = 3
"""A context header takes at most a third of the limit; a longer one is shortened."""
_LEAD_SHARE = 4
"""A heading, with what little stands under it, takes at most a quarter of a chunk that a long line goes on with."""
_SYMBOL_SHARE = 8
_MOST_SYMBOLS = 40
_SAMPLE = 16
_WORDS = re.compile(r"\S+\s{0,16}|\s+")
_SENTENCE_END = re.compile(r"[.!?…。！？]['\"»”)\]]*\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunker:
    """Cuts the passages of one file; `chunk_tokens` counts the context header too.

    `reserved_tokens` of the limit are left for a preamble that is written later.
    """

    counter: TokenCounter
    chunk_tokens: int = 500
    overlap_tokens: int = 50
    reserved_tokens: int = 0

    @property
    def limit(self) -> int:
        return max(1, min(self.chunk_tokens, self.counter.max_tokens) - self.reserved_tokens)

    def cut(self, files: Sequence[tuple[str, Sequence[Passage]]]) -> list[tuple[Chunk, ...]]:
        """The chunks of each file (path, passages), by passage; ordinals count from 0 in each layer of a file.

        None is blank. None is over the limit, as far as tokens of lines add up to the tokens of their text; where a
        sample shows that they do not, everything is cut anew with a lower limit.
        """
        lines_weigher, header_weigher = _Weigher(self.counter), _Weigher(self.counter)
        header_weigher.prepare(
            text for path, passages in files for passage in passages for text in _header_texts(path, passage.document)
        )
        lines = [[source_lines(passage.document.content) for passage in passages] for _, passages in files]
        for limit in (self.limit, self.limit * 9 // 10, self.limit * 3 // 4, self.limit // 2):
            headers = _Headers(header_weigher, max(1, limit))
            cutters = [
                [
                    self._cutter(passage, of_passage, headers.of(path, passage.document), lines_weigher)
                    for passage, of_passage in zip(passages, of_file, strict=True)
                ]
                for (path, passages), of_file in zip(files, lines, strict=True)
            ]
            lines_weigher.prepare(
                chain.from_iterable(cutter.weighed_texts() for of_file in cutters for cutter in of_file)
            )
            cut = [tuple(_chunks(path, of_file)) for (path, _), of_file in zip(files, cutters, strict=True)]
            if self._fits(cut):
                break
        return cut

    def _cutter(self, passage: Passage, lines: list[str], header: _Header, weigher: _Weigher) -> _Cutter:
        overlap = self.overlap_tokens * header.limit // max(1, self.chunk_tokens) if passage.overlaps else 0
        return _Cutter(passage, lines, header, weigher, overlap=overlap)

    def _fits(self, cut: Sequence[Sequence[Chunk]]) -> bool:
        """Whether those chunks that are likeliest to be over the limit are not."""
        chunks = [chunk for chunks in cut for chunk in chunks]
        longest = nlargest(_SAMPLE, chunks, key=lambda chunk: len(chunk.content))
        most_lines = nlargest(_SAMPLE, chunks, key=lambda chunk: chunk.content.count("\n"))
        counts = self.counter.count([chunk.embedded_text for chunk in (*longest, *most_lines)])
        return max(counts, default=0) <= self.limit


@dataclass(frozen=True, slots=True)
class _Piece:
    """Lines `start` up to `end` (exclusive, counted from 0 in the passage), or `text`, what it holds of them."""

    start: int
    end: int
    text: str | None = None


class _Weigher:
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


class _Header(NamedTuple):
    """A chunk's context header, its weight, and the limit that both it and the content stay below."""

    text: str
    weight: int
    limit: int


class _Headers:
    """Context headers: the path, then the section path or the qualified name."""

    def __init__(self, weigher: _Weigher, limit: int) -> None:
        self._limit = limit
        self._weigher = weigher

    def of(self, path: str, document: Document) -> _Header:
        lines = [line for line in _header_texts(path, document) if line]
        weight = self._weight(lines)
        while lines and weight > self._limit // _HEADER_SHARE:
            longest = max(range(len(lines)), key=lambda index: len(lines[index]))
            lines[longest] = _shortened(lines[longest])
            lines = [line for line in lines if line]
            weight = self._weight(lines)
        return _Header("\n".join(lines), weight, self._limit)

    def _weight(self, lines: Sequence[str]) -> int:
        return sum(self._weigher(line) for line in lines)


def _header_texts(path: str, document: Document) -> tuple[str, str]:
    return path, " > ".join(document.section)


def _most_tokens(content: str, lines: Sequence[str]) -> float:
    """As many as it would be if each character, each line's end and its begin were a token; not known but for ASCII."""
    return len(content) + 2 * len(lines) if content.isascii() else math.inf


def _shortened(text: str) -> str:
    """About three quarters of it: the end says more than the beginning, in a path as in a section path.

    >>> _shortened("docs/guides/setting-up/windows.md")
    '…es/setting-up/windows.md'
    """
    kept = text.removeprefix("…")
    kept = kept[len(kept) // 4 + 1 :]
    return f"…{kept}" if kept else ""


class _Cutter:
    """Cuts one passage."""

    def __init__(
        self,
        passage: Passage,
        lines: list[str],
        header: _Header,
        weigher: _Weigher,
        *,
        overlap: int,
    ) -> None:
        self._passage = passage
        self._lines = lines
        self._header = header.text
        self._weigher = weigher
        self._symbol_tokens = header.limit // _SYMBOL_SHARE if passage.symbols else 0
        self._budget = max(1, header.limit - header.weight - self._symbol_tokens)
        self._overlap = overlap
        self._first = passage.document.span.start if passage.verbatim else 1
        self._surely_fits = (
            not passage.verbatim
            and not passage.tables
            and _most_tokens(passage.document.content, lines) <= self._budget
        )

    @property
    def layer(self) -> Layer:
        return self._passage.document.layer

    def weighed_texts(self) -> Sequence[str]:
        """What will be asked for the tokens of."""
        passage, lines = self._passage, () if self._surely_fits else self._lines
        if not passage.tables and not passage.symbols:
            return lines
        headers = (table.header for table in passage.tables)
        return [*lines, *headers, *(symbol.qualified_name for symbol in passage.symbols)]

    def chunk(self, path: str, ordinal: int, piece: _Piece) -> Chunk:
        document = self._passage.document
        span = document.span
        if self._passage.verbatim:
            span = Span(start=self._first + piece.start, end=self._first + piece.end - 1)
        title, header, metadata = document.title, self._header, document.metadata
        if self._passage.symbols and (symbols := self._symbols_in(span)):
            title, named = self._named(symbols)
            header = f"{header}\n{named}" if named else header
            names = [symbol.qualified_name for symbol in symbols][:_MOST_SYMBOLS]
            metadata = {**metadata, "symbols": names} | ({"qualified_name": names[0]} if len(names) == 1 else {})
        if self._passage.tables and (table := self._tables.get(piece.start)):
            header = f"{header}\n{table}"
            metadata = {**metadata, TABLE_HEADER: table}
        if self._passage.verbatim and piece.text is None:
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

    def pieces(self) -> Iterator[_Piece]:
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

    def _stripped(self, start: int, end: int) -> _Piece | None:
        while start < end and not self._lines[start].strip():
            start += 1
        while end > start and not self._lines[end - 1].strip():
            end -= 1
        return _Piece(start, end) if start < end else None

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
        for whole in self._passage.wholes:
            start, end = whole.span.start - self._first, whole.span.end - self._first + 1
            uncut[start:end] = b"\1" * (end - start)
        return uncut

    @cached_property
    def _prices(self) -> list[float]:
        prices = [self._passage.prices.get(self._first + index, DEFAULT_PRICE) for index in range(len(self._lines) + 1)]
        for whole in self._passage.wholes:
            start, end = whole.span.start - self._first, whole.span.end - self._first + 1
            if self._sums[end] - self._sums[start] <= self._budget:
                for index in range(start + 1, end):
                    prices[index] += whole.price
        return prices

    @cached_property
    def _tables(self) -> dict[int, str]:
        """The header's line by the row that a chunk may begin with; a very wide header is shortened."""
        headers: dict[int, str] = {}
        for table in self._passage.tables:
            header = table.header
            while self._weigher(header) > self._budget // 2:
                header = header[: len(header) * 3 // 4]
            rows = range(table.rows.start - self._first, table.rows.end - self._first + 1)
            headers |= dict.fromkeys(rows, header)
        return headers

    @cached_property
    def _symbol_starts(self) -> list[int]:
        return [symbol.span.start for symbol in self._passage.symbols]

    @cached_property
    def _symbol_parents(self) -> list[int]:
        return _parents(self._passage.symbols)

    def _symbols_in(self, span: Span) -> list[Symbol]:
        """The outermost definitions that begin in these lines, after the innermost one that the lines go on with."""
        symbols, starts = self._passage.symbols, self._symbol_starts
        first = bisect_left(starts, span.start)
        within: list[Symbol] = []
        for symbol in symbols[first : bisect_right(starts, span.end)]:
            if not within or symbol.span.start > within[-1].span.end:
                within.append(symbol)
        index = first - 1
        while index >= 0 and symbols[index].span.end < span.start:
            index = self._symbol_parents[index]
        around = symbols[index] if index >= 0 else None
        if around and (not within or self._has_code(span.start, within[0].span.start)):
            return [around, *within]
        return within

    def _has_code(self, start: int, end: int) -> bool:
        lines = self._lines[start - self._first : end - self._first]
        return any(line.strip() and not line.lstrip().startswith("#") for line in lines)

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

    # --- inside a line -------------------------------------------------------------------------------------------

    def _long_line(self, start: int) -> int | None:
        """The line over the limit that stands here, or behind the heading that the section begins with here."""
        if self._weights[start] > self._room(start):
            return start
        if start or not self._passage.document.section:
            return None
        for line in range(1, len(self._lines)):
            if self._sums[line] * _LEAD_SHARE > self._budget:
                return None
            if self._weights[line] > self._budget and line not in self._tables and self._lines[line].strip():
                return line
        return None

    def _parts(self, first: int, index: int) -> Iterator[_Piece]:
        """A line over the limit in parts that fit, none of them blank; the lines from `first` on stand before them."""
        text = "".join(f"{line}\n" for line in self._lines[first:index])
        for part in self._parts_of_line(index, lead=self._sums[index] - self._sums[first]):
            yield _Piece(first, index + 1, f"{text}{part}")
            first, text = index, ""

    def _parts_of_line(self, index: int, *, lead: int) -> Iterator[str]:
        """The first part leaves room for `lead` tokens."""
        room = self._room(index) - lead
        words = _WORDS.findall(self._lines[index])
        self._weigher.prepare(words)
        units = [unit for word in words for unit in self._characters(word, room)]
        sums = [0, *accumulate(self._weigher(unit) for unit in units)]
        start = 0
        while start < len(units):
            furthest = max(bisect_right(sums, sums[start] + room) - 1, start + 1)
            cut = furthest
            if furthest < len(units):
                for position in range(furthest, start, -1):
                    if sums[position] - sums[start] < room / 2:
                        break
                    if _SENTENCE_END.search(units[position - 1]):
                        cut = position
                        break
            if part := "".join(units[start:cut]).strip():
                yield part
                room = self._room(index)
            start = cut

    def _characters(self, word: str, room: int) -> Iterator[str]:
        if self._weigher(word) <= room or len(word) == 1:
            yield word
            return
        size = max(1, len(word) * room // (2 * self._weigher(word)))
        pieces = [word[at : at + size] for at in range(0, len(word), size)]
        self._weigher.prepare(pieces)
        for piece in pieces:
            yield from self._characters(piece, room)


def _chunks(path: str, cutters: Iterable[_Cutter]) -> Iterator[Chunk]:
    ordinals: dict[Layer, int] = {}
    for cutter in cutters:
        for piece in cutter.pieces():
            ordinal = ordinals.get(cutter.layer, 0)
            ordinals[cutter.layer] = ordinal + 1
            yield cutter.chunk(path, ordinal, piece)


def with_gaps_marked(chunks: Sequence[Chunk], lines: Sequence[str]) -> tuple[Chunk, ...]:
    """A file's chunks, with a mark on those between which and the chunk before more than empty lines were left out."""
    end: dict[Layer, int] = {}
    marked: list[Chunk] = []
    for chunk in chunks:
        left_out = lines[end.get(chunk.layer, chunk.span.start) : chunk.span.start - 1]
        if chunk.layer in VERBATIM_LAYERS:
            end[chunk.layer] = chunk.span.end
        marked.append(replace(chunk, metadata={**chunk.metadata, BLANKS_BEFORE: True}) if any(left_out) else chunk)
    return tuple(marked)


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
