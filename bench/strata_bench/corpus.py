"""What is indexed and asked: a judged set's files, or this project's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strata.errors import ConfigurationError
from strata_eval.dataset import json_lines
from strata_eval.own_code import from_python_sources

PROJECT = Path(__file__).resolve().parents[2]
OWN_FOLDERS = ("layers", "functions", "client", "infra", "eval", "bench", "docs", "tests")
OWN_SUFFIXES = (".py", ".md", ".sql", ".yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """`files` maps paths to texts; `questions` are asked in their order."""

    name: str
    files: dict[str, str]
    questions: tuple[str, ...]


def read_corpus(folder: Path) -> Corpus:
    """`corpus.jsonl` (`path`, `text`) and `queries.jsonl` (`text`) of a folder; else `ConfigurationError`."""
    files = {row["path"]: row["text"] for row in text_rows(folder / "corpus.jsonl", ("path", "text"))}
    questions = tuple(row["text"] for row in text_rows(folder / "queries.jsonl", ("text",)))
    return Corpus(name=folder.name, files=files, questions=questions)


def own_corpus() -> Corpus:
    """This project's sources and documents, asked with the first sentences of its docstrings."""
    files = {
        path.relative_to(PROJECT).as_posix(): path.read_text(encoding="utf-8")
        for folder in OWN_FOLDERS
        for path in sorted((PROJECT / folder).rglob("*"))
        if path.suffix in OWN_SUFFIXES and path.is_file()
    }
    judged = from_python_sources(PROJECT / "layers" / "common" / "strata")
    return Corpus(name="own-project", files=files, questions=tuple(query.text for query in judged.queries))


def text_rows(path: Path, fields: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The lines of a JSON Lines file, each an object with a text in every field; else `ConfigurationError`."""
    for row, at in json_lines(path):
        if not all(isinstance(row.get(field), str) for field in fields):
            raise ConfigurationError(f"{at} lacks a text under {' or '.join(fields)}.")
        yield row
