"""What is asked for beyond the file: golden chunks, and the lines of a symbol; and the pieces that are found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata.errors import ConfigurationError
from strata.model.asking import Candidate
from strata.model.corpus import Chunk, Layer, Span
from strata_eval.dataset import json_lines, read_judgements, title_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """Lines of a file that answer a query; `chunk` is the number of a given chunk, None for a symbol's lines."""

    path: str
    span: Span
    chunk: int | None = None

    def found_by(self, row: Candidate | Chunk, *, given: bool) -> bool:
        """Given chunks are found whole; lines by a row that covers half of them; a symbol by any row that meets it."""
        if row.path != self.path:
            return False
        if given:
            return row.ordinal == self.chunk
        shared = min(row.span.end, self.span.end) - max(row.span.start, self.span.start) + 1
        return shared > 0 if self.chunk is None else 2 * shared >= self.span.end - self.span.start + 1


def read_golden(folder: Path) -> dict[str, tuple[Golden, ...]]:
    """The golden pieces of each query; none of one that is judged by file only. Raises `ConfigurationError`."""
    path = folder / "qrels.tsv"
    rows = read_judgements(path)
    golden: dict[str, list[Golden]] = {}
    try:
        if rows and "chunk_index" in rows[0]:
            spans = _spans_of_given_chunks(folder)
            for row in _with(rows, "chunk_index"):
                number = int(row["chunk_index"])
                piece = Golden(path=row["path"], span=spans[row["path"], number], chunk=number)
                golden.setdefault(row["query_id"], []).append(piece)
        elif rows and "start_line" in rows[0]:
            for row in _with(rows, "start_line", "end_line"):
                span = Span(start=int(row["start_line"]), end=int(row["end_line"]))
                golden.setdefault(row["query_id"], []).append(Golden(path=row["path"], span=span))
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"{path}: chunk_index must be the number of a chunk in corpus.jsonl, start_line and end_line those of "
            f"lines, or empty ({error!r})."
        ) from error
    return {query: tuple(dict.fromkeys(pieces)) for query, pieces in golden.items()}


def _with(rows: Sequence[Mapping[str, str]], *columns: str) -> Iterator[Mapping[str, str]]:
    """The rows that name a piece; one whose columns are all empty judges the file."""
    return (row for row in rows if any((row[column] or "").strip() for column in columns))


def read_given_chunks(folder: Path) -> dict[str, list[Chunk]]:
    """The chunks that the set brings along, as rows of C0 by path; their ordinal is their number in the file."""
    given: dict[str, list[Chunk]] = {}
    spans = _spans_of_given_chunks(folder)
    for path, title, _, texts in _files(folder):
        given[path] = [
            Chunk(
                path=path,
                layer=Layer.C0_SOURCE_CHUNKS,
                ordinal=number,
                title=title,
                context=path,
                content=text,
                span=spans[path, number],
            )
            for number, text in enumerate(texts)
            if text.strip()
        ]
    return given


def _files(folder: Path) -> list[tuple[str, str, str, list[str]]]:
    return [
        (row["path"], title_of(row), row["text"], _chunks(row, at)) for row, at in json_lines(folder / "corpus.jsonl")
    ]


def _chunks(row: Mapping[str, Any], at: str) -> list[str]:
    """The document's own chunks; its whole text where it brings none, so that it can be found all the same."""
    chunks = row.get("chunks")
    if chunks is None:
        return [row["text"]]
    if not isinstance(chunks, list) or not all(isinstance(chunk, str) for chunk in chunks):
        raise ConfigurationError(f"{at}: 'chunks' is not a list of texts.")
    return chunks


def _spans_of_given_chunks(folder: Path) -> Mapping[tuple[str, int], Span]:
    spans: dict[tuple[str, int], Span] = {}
    for path, _, text, chunks in _files(folder):
        start = 0
        for number, chunk in enumerate(chunks):
            found = text.find(chunk, start)
            start = max(start, found)
            first = text.count("\n", 0, max(0, found)) + 1
            spans[path, number] = Span(start=first, end=first + chunk.rstrip("\n").count("\n"))
    return spans


def pass_at(golden: Sequence[Golden], rows: Sequence[Candidate], k: int, *, given: bool) -> float:
    """The share of the golden chunks that are among the first `k` rows."""
    return sum(any(piece.found_by(row, given=given) for row in rows[:k]) for piece in golden) / len(golden)
