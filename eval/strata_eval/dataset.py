"""A judged data set: documents, queries, and which document answers which query.

On disk a set is a folder with `corpus.jsonl` (`path`, `title`, `text`), `queries.jsonl` (`id`, `text`) and `qrels.tsv`
(a header line that names at least `query_id`, `path` and `relevance`); further fields and columns are left alone.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedDocument:
    path: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedQuery:
    query_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSet:
    """`relevant` maps a query's id to the paths that answer it; each query has at least one that is in the corpus."""

    name: str
    documents: tuple[JudgedDocument, ...]
    queries: tuple[JudgedQuery, ...]
    relevant: Mapping[str, frozenset[str]]


def read_set(folder: Path) -> JudgedSet:
    """Read a set; raises `ConfigurationError` that names the file and line which are wrong.

    A query with `keep` false is left out: someone has looked at it. One without a relevant document in the corpus can't
    be answered by any system, so it is a fault too.
    """
    documents = tuple(
        JudgedDocument(path=_text(row, "path", at), title=str(row.get("title", "")), text=_text(row, "text", at))
        for row, at in _json_lines(folder / "corpus.jsonl")
    )
    queries = tuple(
        JudgedQuery(query_id=_text(row, "id", at), text=_text(row, "text", at))
        for row, at in _json_lines(folder / "queries.jsonl")
        if row.get("keep", True)
    )
    return judged_set(folder.name, documents, queries, _read_judgements(folder / "qrels.tsv"))


def judged_set(
    name: str,
    documents: tuple[JudgedDocument, ...],
    queries: tuple[JudgedQuery, ...],
    judgements: Mapping[str, set[str]],
) -> JudgedSet:
    """Put a set together; raises `ConfigurationError` when its parts do not fit."""
    paths = {document.path for document in documents}
    if len(paths) != len(documents):
        raise ConfigurationError(f"{name}: two documents have the same path.")
    for query in queries:
        if judgements.get(query.query_id, set()).isdisjoint(paths):
            raise ConfigurationError(f"{name}: query {query.query_id!r} has no relevant document in the corpus.")
    relevant = {query.query_id: frozenset(judgements[query.query_id]) for query in queries}
    if len(relevant) != len(queries) or not queries:
        raise ConfigurationError(f"{name}: there are no queries, or two have the same id.")
    return JudgedSet(name=name, documents=documents, queries=queries, relevant=relevant)


def _json_lines(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Each line's object and where it stands, for messages."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                at = f"{path.parent.name}/{path.name}:{number}"
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ConfigurationError(f"{at}: not an object.")
                yield row, at
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}.") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is not JSON Lines: {error}.") from error


def _text(row: Mapping[str, Any], name: str, at: str) -> str:
    if not isinstance(row.get(name), str):
        raise ConfigurationError(f"{at}: no text under {name!r}.")
    return str(row[name])


def _read_judgements(path: Path) -> dict[str, set[str]]:
    judgements: dict[str, set[str]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                if int(row["relevance"]) > 0:
                    judgements.setdefault(row["query_id"], set()).add(row["path"])
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}.") from error
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{path} does not hold query_id, path and a whole number as relevance.") from error
    return judgements
