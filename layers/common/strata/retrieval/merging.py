"""Neighbouring pieces of a file that were found for one question → one row.

A chunk is as long as the embedder reads well, which is shorter than what a reader wants to see together. Where the
piece before or behind a row was found too, the better row takes it in, and a place on the page is free for another.
Nothing is read for that, and no row changes its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from strata.model.asking import Also, Candidate
from strata.model.corpus import BLANKS_BEFORE, TABLE_HEADER, TOKENS, VERBATIM_LAYERS, Layer, Span


class _Place(NamedTuple):
    path: str
    layer: Layer
    ordinal: int


def merged(candidates: Sequence[Candidate], *, most_tokens: int, least_rows: int) -> tuple[Candidate, ...]:
    """The rows in their order, without those that a better one has taken in; `least_rows` stay where there are so many.

    A row of source text grows to at most `most_tokens`, first by the neighbour that stands higher in the order, as long
    as they fit; one whose length the index does not know stays as it is. It keeps its score, its title and its number;
    its lines and its text are those of all its pieces, and `also` names those that it took in.
    """
    left = {_place(row): rank for rank, row in enumerate(candidates) if _is_joinable(row)}
    spare = len(candidates) - least_rows
    rows: list[Candidate] = []
    gone: set[int] = set()
    for rank, row in enumerate(candidates):
        if rank in gone:
            continue
        taken: list[Candidate] = []
        if left.pop(_place(row), None) is not None:
            for other in _neighbours(row, candidates, left, most_tokens=most_tokens):
                if len(taken) >= spare:
                    break
                gone.add(left.pop(_place(other)))
                taken.append(other)
            spare -= len(taken)
        rows.append(_joined(row, taken) if taken else row)
    return tuple(rows)


def _neighbours(
    row: Candidate, candidates: Sequence[Candidate], left: Mapping[_Place, int], *, most_tokens: int
) -> Iterator[Candidate]:
    """What a row may take in, one after the other; `left` says at which rank the free rows stand, and is changed by the
    caller as it takes them."""
    first = last = row
    room = most_tokens - row.metadata[TOKENS]
    while True:
        ranks = [
            rank
            for end, step in ((first, -1), (last, 1))
            if (rank := left.get(_place(end, step))) is not None
            and candidates[rank].metadata[TOKENS] <= room
            and _go_on(end, candidates[rank])
        ]
        if not ranks:
            return
        other = candidates[min(ranks)]
        room -= other.metadata[TOKENS]
        first, last = (other, last) if other.ordinal < first.ordinal else (first, other)
        yield other


def _place(row: Candidate, step: int = 0) -> _Place:
    return _Place(row.path, row.layer, row.ordinal + step)


def _is_joinable(row: Candidate) -> bool:
    return row.layer in VERBATIM_LAYERS and TOKENS in row.metadata


def _go_on(one: Candidate, other: Candidate) -> bool:
    """Whether two neighbours are of the same content, each has lines of its own, and together they are the source."""
    if one.ordinal > other.ordinal:
        one, other = other, one
    return (
        one.blob_sha == other.blob_sha
        and one.span.start < other.span.start
        and one.span.end < other.span.end
        and not other.metadata.get(BLANKS_BEFORE)
    )


def _joined(row: Candidate, taken: Sequence[Candidate]) -> Candidate:
    pieces = sorted((row, *taken), key=lambda piece: piece.ordinal)
    lines = pieces[0].content.split("\n")
    for before, piece in pairwise(pieces):
        # Lines that both leave out are empty; those of an overlap stand in both.
        between = piece.span.start - before.span.end - 1
        lines += [""] * between
        lines += piece.content.split("\n")[max(0, -between) :]
    metadata = {name: value for name, value in row.metadata.items() if name != TABLE_HEADER}
    metadata[TOKENS] = sum(piece.metadata[TOKENS] for piece in pieces)
    if symbols := [symbol for piece in pieces for symbol in piece.metadata.get("symbols", ())]:
        metadata["symbols"] = list(dict.fromkeys(symbols))
    if header := pieces[0].metadata.get(TABLE_HEADER):
        metadata[TABLE_HEADER] = header
    return replace(
        row,
        span=Span(start=pieces[0].span.start, end=pieces[-1].span.end),
        content="\n".join(lines),
        metadata=metadata,
        also=(*row.also, *(Also(layer=piece.layer, path=piece.path, span=piece.span) for piece in taken)),
    )
