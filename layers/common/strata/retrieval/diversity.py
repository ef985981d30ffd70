"""Ten results that are ten useful ones: the same lines, the same text and one file's many rows don't fill a page.

Nothing is lost: what is held back comes when there is nothing better, so as many rows come back as are allowed. Where a
caller asks for preferences, rows are held back inside their kind only: a preferred row never gives way to another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from strata.model.asking import Also, Candidate, Retrieved
from strata.model.corpus import VERBATIM_LAYERS, Layer, Span

FILE_SHARE = 0.4
"""Share of the result that one file's rows may take while other files have rows to show; two rows at least. Not where
the scores see to it."""
SAME_LINES = 0.5
"""From this share of common lines on, two rows show the same."""
FUNCTION_LINES = 0.25
"""From this share on, text shows enough of a function to speak for the function's entry."""
SHORT_FUNCTION_LINES = 60
"""The entry of a function of so many lines speaks for the text of a part of it: it leads to all of its lines."""

_FAMILIES = (
    frozenset({Layer.C0_SOURCE_CHUNKS, Layer.C1_SYMBOL_CATALOG}),
    frozenset({Layer.D2_FACT_INDEX, Layer.D3_SECTION_INDEX, Layer.D4_POLICY_INDEX}),
)
"""Layers that show the same lines in two ways."""
_FUNCTIONS = frozenset({"function", "method"})


def preference(row: Candidate) -> tuple[int, int]:
    """What comes before the score: the less, the further in front."""
    return -row.prefer_bonus, row.test_penalty


def diversified(found: Retrieved, limit: int) -> tuple[Candidate, ...]:
    """The `limit` rows to show, in the order in which they are given; all of them where there are not more.

    A row is held back where a better one shows its lines (its twin of another layer) or the same text (a copy of the
    file): the better row names it in `also`. So is a row of a file that has had its share, unless the scores keep the
    rows of one file apart already.
    """
    most_of_a_file = limit if found.spread else max(2, round(limit * FILE_SHARE))
    chosen: list[Candidate] = []
    for _, kind in groupby(found.candidates, key=preference):
        if len(chosen) == limit:
            break
        chosen += _of_one_kind(list(kind), limit - len(chosen), most_of_a_file)
    return tuple(chosen)


def _of_one_kind(rows: Sequence[Candidate], wanted: int, most_of_a_file: int) -> list[Candidate]:
    shown: dict[int, Candidate] = {}
    held_back: list[Candidate] = []
    of_file: dict[str, int] = {}
    blobs: set[str] = set()
    for row in rows:
        better = None
        if row.path in of_file or row.blob_sha in blobs:
            others = shown.values()
            better = next((other for other in others if shows_the_same(row, other) or _is_copy(row, other)), None)
        if better is not None:
            also = Also(layer=row.layer, path=row.path, span=row.span)
            shown[better.chunk_id] = replace(better, also=(*better.also, also))
        if better is not None or len(shown) == wanted or of_file.get(row.path, 0) == most_of_a_file:
            held_back.append(row)
        else:
            shown[row.chunk_id] = row
            of_file[row.path] = of_file.get(row.path, 0) + 1
            blobs.add(row.blob_sha)
    chosen = {**shown, **{row.chunk_id: row for row in held_back[: wanted - len(shown)]}}
    return list(_in_order(rows, chosen))


def _in_order(rows: Sequence[Candidate], chosen: dict[int, Candidate]) -> Iterator[Candidate]:
    """A row that is shown after all is no longer named by its twin."""
    places = {(row.path, row.layer, row.span) for row in chosen.values()}
    for row in rows:
        if kept := chosen.get(row.chunk_id):
            also = tuple(also for also in kept.also if (also.path, also.layer, also.span) not in places)
            yield kept if also == kept.also else replace(kept, also=also)


def shows_the_same(row: Candidate, better: Candidate) -> bool:
    """Whether `better` shows the lines of `row` in another layer.

    An entry about lines adds nothing where the text of half of them is shown, of a function a quarter; text gives way
    only to its very lines, so that a class's entry does not stand for all of its methods, and to the entry of a short
    function that it is a part of.
    """
    if row.path != better.path or row.layer is better.layer:
        return False
    if not any({row.layer, better.layer} <= family for family in _FAMILIES):
        return False
    common = _common_lines(row.span, better.span)
    of_row, of_better = common / _lines(row.span), common / _lines(better.span)
    if better.layer in VERBATIM_LAYERS:
        return of_row >= (FUNCTION_LINES if _is_function(row) else SAME_LINES)
    short = _is_function(better) and _lines(better.span) <= SHORT_FUNCTION_LINES
    return of_row >= SAME_LINES and (short or of_better >= SAME_LINES)


def _is_function(row: Candidate) -> bool:
    return row.metadata.get("symbol_kind") in _FUNCTIONS


def _is_copy(row: Candidate, better: Candidate) -> bool:
    """The same place in a file with the same bytes, or a part of it."""
    return (
        row.path != better.path
        and (row.blob_sha, row.layer) == (better.blob_sha, better.layer)
        and better.span.start <= row.span.start
        and row.span.end <= better.span.end
        and row.content in better.content
    )


def _common_lines(one: Span, other: Span) -> int:
    return max(0, min(one.end, other.end) - max(one.start, other.start) + 1)


def _lines(span: Span) -> int:
    return span.end - span.start + 1
