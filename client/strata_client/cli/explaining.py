"""What a row's score is made of, as a table for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strata_client.cli.answers import place
from strata_client.cli.screen import Screen
from strata_client.wire import Explanation, Row, ScorePart

_VALUE_NAMES = {"dense": "distance", "lexical": "bm25"}


def show_explanations(screen: Screen, rows: Sequence[Row]) -> None:
    """A table for each row: its parts, which add up to the score, the greatest first, and why."""
    for number, row in enumerate(rows, 1):
        if (explained := row["explain"]) is not None:
            screen.line()
            screen.table(("#", "part", "adds", "because"), [(str(number), *line) for line in _lines(row, explained)])


def _made_of(part: ScorePart) -> str:
    if part["rank"] is None:
        return f"{part['value'] or 0:.4f} × {part['weight']:g}"
    value = "" if part["value"] is None else f", {_VALUE_NAMES.get(part['name'], 'value')} {part['value']:.4f}"
    return f"rank {part['rank']}, weight {part['weight']:g}{value}"


def _lines(row: Row, explained: Explanation) -> Iterator[tuple[str, str, str]]:
    for part in sorted(explained["parts"], key=lambda part: -abs(part["part"])):
        sentence = part.get("sentence", "")  # a server of an earlier version sends none
        yield part["name"], f"{part['part']:.5f}", f"{sentence} ({_made_of(part)})".lstrip()
    yield "score", f"{row['score']:.5f}", place(row["path"], row["span_start"], row["span_end"])
    if explained["terms"] is None:
        yield "words", f"{row['bm25'] or 0:.4f}", "of BM25; words are not told apart: the session has restricted files"
    for term in explained["terms"] or []:
        yield "word", f"{term['part']:.4f}", f"of BM25: {term['term']}"
    if row["prefer_bonus"]:
        yield "bonus", f"{row['prefer_bonus']}", "its path is preferred; this comes before the score"
    if row["test_penalty"]:
        yield "penalty", f"{row['test_penalty']}", "it looks like a test; this comes before the score"
    for also in row["also"]:
        yield "also", "", f"stands for {place(also['path'], *also['lines'])} ({also['layer'][:2]})"
    if all(part["rank"] is None for part in explained["parts"]):  # a reranker's parts tell nothing of the lists
        yield "found by", "", ", ".join(_places(row)) or "no list: it holds no word and has no vector"
    yield "allowed", "", explained["allowed_by"]


def _places(row: Row) -> Iterator[str]:
    """Where the row stood in each list that held it, with its score there."""
    if row["dense_rank"] is not None:
        yield f"meaning, rank {row['dense_rank']} (distance {row['distance'] or 0:.4f})"
    if row["lexical_rank"] is not None:
        yield f"words, rank {row['lexical_rank']} (bm25 {row['bm25'] or 0:.4f})"
    if row["exact_rank"] is not None:
        yield f"names, rank {row['exact_rank']}"
    if row["structural_rank"] is not None:
        yield f"links, rank {row['structural_rank']}"
