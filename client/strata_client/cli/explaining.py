"""What a row's score is made of, as a table for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strata_client.cli.answers import place
from strata_client.cli.screen import Screen
from strata_client.wire import Explanation, Row, ScorePart

_VALUE_NAMES = {"dense": "distance", "lexical": "bm25"}


def show_explanations(screen: Screen, rows: Sequence[Row]) -> None:
    """One block of lines for each row: its parts, which add up to the score, and what they are made of."""
    screen.line()
    lines = [
        (str(number), *line)
        for number, row in enumerate(rows, 1)
        if (explained := row["explain"]) is not None
        for line in _lines(row, explained)
    ]
    screen.table(("#", "part", "adds", "because"), lines)


def _value_name(part: ScorePart) -> str:
    return _VALUE_NAMES.get(part["name"], "value") if part["rank"] is not None else "value"


def _lines(row: Row, explained: Explanation) -> Iterator[tuple[str, str, str]]:
    for part in explained["parts"]:
        value = "" if part["value"] is None else f", {_value_name(part)} {part['value']:.4f}"
        rank = "" if part["rank"] is None else f"rank {part['rank']}, "
        yield part["name"], f"{part['part']:.5f}", f"{rank}weight {part['weight']:g}{value}"
    yield "score", f"{row['score']:.5f}", place(row["path"], row["span_start"], row["span_end"])
    if explained["terms"] is None:
        yield "bm25", f"{row['bm25'] or 0:.4f}", "words are not told apart: the session has restricted files"
    for term in explained["terms"] or []:
        yield "bm25", f"{term['part']:.4f}", f"the word {term['term']}"
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
