"""What is indexed and asked: a judged set's files, or this project's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from strata.errors import ConfigurationError, InvalidPath, InvalidQuery
from strata.model.asking import MAX_QUERY_CHARACTERS
from strata.model.corpus import checked_path
from strata.retrieval.analyser import query_terms
from strata.retrieval.filters import as_stored
from strata.retrieval.retrieve import checked_text
from strata_eval.dataset import json_lines
from strata_eval.own_code import from_python_sources

PROJECT = Path(__file__).resolve().parents[2]
OWN_FOLDERS = ("layers", "functions", "client", "infra", "eval", "bench", "docs", "tests")
OWN_SUFFIXES = (".py", ".md", ".sql", ".yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """`files` maps paths to texts; `questions` are asked in their order. No upload may hold a `refused` path."""

    name: str
    files: dict[str, str]
    questions: tuple[str, ...]
    refused: tuple[str, ...] = ()


def read_corpus(folder: Path) -> Corpus:
    """`corpus.jsonl` (`path`, `text`) and `queries.jsonl` (`text`) of a folder; else `ConfigurationError`.

    Questions are as a search takes them: those without a word are left out, of long ones the beginning is asked.
    """
    files: dict[str, str] = {}
    refused: list[str] = []
    for row in text_rows(folder / "corpus.jsonl", ("path", "text")):
        try:
            files[checked_path(as_stored(row["path"]))] = row["text"]
        except InvalidPath:
            refused.append(row["path"])
    if not files:
        raise ConfigurationError(f"{folder / 'corpus.jsonl'} holds no file that can be indexed.")
    texts = (row["text"] for row in text_rows(folder / "queries.jsonl", ("text",)))
    return Corpus(name=folder.name, files=files, questions=tuple(_askable(texts)), refused=tuple(refused))


def _askable(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        with suppress(InvalidQuery):
            checked = checked_text(text[:MAX_QUERY_CHARACTERS])
            if query_terms(checked):
                yield checked


def own_corpus() -> Corpus:
    """This project's sources and documents, asked with the first sentences of its docstrings."""
    files = {
        path.relative_to(PROJECT).as_posix(): path.read_text(encoding="utf-8")
        for folder in OWN_FOLDERS
        for path in sorted((PROJECT / folder).rglob("*"))
        if path.suffix in OWN_SUFFIXES and path.is_file()
    }
    judged = from_python_sources(PROJECT / "layers" / "common" / "strata")
    return Corpus(name="own-project", files=files, questions=tuple(_askable(query.text for query in judged.queries)))


def text_rows(path: Path, fields: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The lines of a JSON Lines file, each an object with a text in every field; else `ConfigurationError`."""
    for row, at in json_lines(path):
        if not all(isinstance(row.get(field), str) for field in fields):
            raise ConfigurationError(f"{at} lacks a text under {' or '.join(fields)}.")
        yield row
