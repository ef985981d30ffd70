"""Candidates → a context within its budget: whole lines of the sources, the best first, none of them twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from strata.answering.prompting import render_piece
from strata.model.asking import Candidate, Context, Question, Retrieved, SourcePiece
from strata.model.corpus import Layer, Span
from strata.ports.embedding import TokenCounter

PIECE_SHARE = 3
"""One piece takes at most a third of the budget, so that one long file can't be the whole context."""

CATALOGUE_SHARE = 8
"""A file's catalogue entry stands for the whole file; its beginning is enough, the sections follow by themselves."""

_MIN_PIECE_TOKENS = 48
"""Less room than this is not worth a cut piece."""

_CHARACTERS_PER_TOKEN = 8
"""The most that a token is taken to stand for: a tokenizer may count one endless word as a single unknown token."""


def augment(
    question: Question,
    retrieved: Retrieved,
    texts: Mapping[int, str],
    *,
    counter: TokenCounter,
    max_tokens: int,
) -> Context:
    """Pack what fits into `max_tokens`, fences and labels counted; numbers follow the candidates' order.

    `texts` holds the whole decoded file behind a chunk id; a candidate without one is left out. The best piece of each
    file comes first, then further ones. Pieces of one file that overlap become one; what is too long is cut at line
    ends and its span says so. No candidate, or no room even for a line: no pieces.
    """
    packing = _Packing(counter=counter, max_tokens=max_tokens)
    for candidate in one_per_file_first(retrieved.candidates):
        if candidate.chunk_id in texts:
            packing.add(candidate, texts[candidate.chunk_id].split("\n"))
    pieces = tuple(replace(kept.piece, n=number) for number, kept in enumerate(packing.kept, 1))
    return Context(question=question, pieces=pieces, tokens=sum(kept.tokens for kept in packing.kept))


def one_per_file_first(candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """The first candidate of each file in order, then the others in order."""
    seen: set[str] = set()
    later = []
    for candidate in candidates:
        if candidate.path in seen:
            later.append(candidate)
        else:
            seen.add(candidate.path)
            yield candidate
    yield from later


@dataclass(frozen=True, slots=True)
class _Kept:
    piece: SourcePiece
    tokens: int


class _Packing:
    """The pieces taken so far, and the room that is left."""

    def __init__(self, *, counter: TokenCounter, max_tokens: int) -> None:
        self._counter = counter
        self._max_tokens = max_tokens
        self.kept: list[_Kept] = []

    def add(self, candidate: Candidate, lines: list[str]) -> None:
        """Take what of the candidate's lines is new and fits; grow the piece that it overlaps, if that fits."""
        span = _within(candidate.span, lines)
        if span is None:
            return
        touched = [kept for kept in self.kept if _same_file(kept.piece, candidate) and _touch(kept.piece.span, span)]
        if touched:
            union = Span(
                start=min(span.start, *(kept.piece.span.start for kept in touched)),
                end=max(span.end, *(kept.piece.span.end for kept in touched)),
            )
            best = touched[0]
            if union == best.piece.span:
                return
            grown = self._measured(replace(best.piece, span=union, text=_text(lines, union)))
            freed = sum(kept.tokens for kept in touched)
            if grown.tokens <= min(self._room() + freed, self._piece_limit(best.piece.layer)):
                self.kept[self.kept.index(best)] = grown
                self.kept = [kept for kept in self.kept if kept not in touched[1:]]
                return
        for part in self._uncovered(candidate, span):
            self._take(candidate, part, lines)

    def _room(self) -> int:
        return self._max_tokens - sum(kept.tokens for kept in self.kept)

    def _piece_limit(self, layer: Layer) -> int:
        share = CATALOGUE_SHARE if layer is Layer.D1_DOCUMENT_CATALOG else PIECE_SHARE
        return max(self._max_tokens // share, _MIN_PIECE_TOKENS)

    def _uncovered(self, candidate: Candidate, span: Span) -> Iterator[Span]:
        """The parts of the span that no piece of the same file holds."""
        covered = sorted(
            (kept.piece.span.start, kept.piece.span.end) for kept in self.kept if _same_file(kept.piece, candidate)
        )
        start = span.start
        for first, last in covered:
            if start <= span.end and first > start:
                yield Span(start=start, end=min(first - 1, span.end))
            start = max(start, last + 1)
        if start <= span.end:
            yield Span(start=start, end=span.end)

    def _take(self, candidate: Candidate, span: Span, lines: list[str]) -> None:
        while span.start < span.end and not lines[span.start - 1].strip():
            span = Span(start=span.start + 1, end=span.end)
        text = _text(lines, span)
        if not text.strip():
            return
        room = min(self._room(), self._piece_limit(candidate.layer))
        piece = SourcePiece(
            n=len(self.kept) + 1,
            path=candidate.path,
            layer=candidate.layer,
            title=candidate.title,
            span=span,
            blob_sha=candidate.blob_sha,
            score=candidate.score,
            text=text,
        )
        if not self.kept or room >= _MIN_PIECE_TOKENS:
            fitting = self._cut(piece, candidate.content, room)
            if fitting is not None:
                self.kept.append(fitting)

    def _cut(self, piece: SourcePiece, content: str, room: int) -> _Kept | None:
        """The piece, or as many of its first lines as fit; of a single long line, the part that was found."""
        whole = self._measured(piece)
        if whole.tokens <= room:
            return whole
        lines = piece.text.split("\n")
        count = self._most(len(lines), room, lambda size: _first_lines(piece, lines, size))
        if count:
            return self._measured(_first_lines(piece, lines, count))
        start = max(lines[0].find(content[:200].strip()), 0)
        line = replace(piece, span=Span(start=piece.span.start, end=piece.span.start), text=lines[0][start:])
        size = self._most(len(line.text), room, lambda size: replace(line, text=line.text[:size]))
        border = line.text.rfind(" ", size // 2, size) if size < len(line.text) else size
        text = line.text[: border if border > 0 else size]
        return self._measured(replace(line, text=text)) if text.strip() else None

    def _most(self, limit: int, room: int, cut: Callable[[int], SourcePiece]) -> int:
        """The greatest size up to `limit` whose piece fits, found by halving."""
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self._measured(cut(middle)).tokens <= room:
                low = middle
            else:
                high = middle - 1
        return low

    def _measured(self, piece: SourcePiece) -> _Kept:
        rendered = render_piece(piece) + "\n\n"
        least = -(-len(rendered) // _CHARACTERS_PER_TOKEN)
        if least > self._max_tokens:
            return _Kept(piece, least)
        return _Kept(piece, max(least, self._counter.count([rendered])[0]))


def _first_lines(piece: SourcePiece, lines: list[str], count: int) -> SourcePiece:
    span = Span(start=piece.span.start, end=piece.span.start + count - 1)
    return replace(piece, span=span, text="\n".join(lines[:count]))


def _same_file(piece: SourcePiece, candidate: Candidate) -> bool:
    return piece.path == candidate.path and piece.blob_sha == candidate.blob_sha


def _touch(one: Span, other: Span) -> bool:
    """Whether the spans share a line."""
    return one.start <= other.end and other.start <= one.end


def _within(span: Span, lines: list[str]) -> Span | None:
    """The span's part that the file has; None for lines after its end."""
    if span.start > len(lines):
        return None
    return Span(start=span.start, end=min(span.end, len(lines)))


def _text(lines: list[str], span: Span) -> str:
    return "\n".join(lines[span.start - 1 : span.end])
