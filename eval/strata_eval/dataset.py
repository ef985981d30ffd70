"""A judged data set: documents, queries, and which document answers which query.

On disk a set is a folder with `corpus.jsonl` (`path`, `title`, `text`), `queries.jsonl` (`id`, `text`) and `qrels.tsv`
(a header line that names at least `query_id`, `path` and `relevance`); further fields and columns are left alone. A
byte-order mark, CRLF, empty lines and halves of characters (which a text that was cut may hold as a JSON escape) do no
harm. Relevance is a number: above 0 is relevant, and grades above 1 count no more than 1.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from strata.errors import ConfigurationError

_HALVES = re.compile("[\ud800-\udfff]")
_HALF_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")


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
    """`relevant` maps a query's id to the paths that answer it, one at least.

    A relevant path that is not in the corpus can't be found and counts all the same; `unanswerable` is the number of
    queries that have only such paths. `unjudged` is the number of queries that were left out because nothing is
    relevant to them. `given`: the set's own chunks stand for its files.
    """

    name: str
    documents: tuple[JudgedDocument, ...]
    queries: tuple[JudgedQuery, ...]
    relevant: Mapping[str, frozenset[str]]
    unjudged: int = 0
    unanswerable: int = 0
    given: bool = False


def read_set(folder: Path) -> JudgedSet:
    """Read a set; raises `ConfigurationError` that names the file and line which are wrong.

    A query with `keep` false is left out: someone has looked at it. So is one to which nothing is relevant.
    """
    documents = tuple(
        JudgedDocument(path=_path(row, at), title=title_of(row), text=_text(row, "text", at))
        for row, at in json_lines(folder / "corpus.jsonl")
    )
    queries = tuple(
        JudgedQuery(query_id=_identifier(row, at), text=_text(row, "text", at))
        for row, at in json_lines(folder / "queries.jsonl")
        if row.get("keep", True)
    )
    judgements: dict[str, set[str]] = {}
    for judgement in read_judgements(folder / "qrels.tsv"):
        judgements.setdefault(judgement["query_id"], set()).add(judgement["path"])
    judged = tuple(query for query in queries if query.query_id in judgements)
    if queries and not judged:
        raise ConfigurationError(f"{folder.name}: qrels.tsv judges none of the {len(queries)} queries.")
    found = judged_set(folder.name, documents, judged, judgements)
    return replace(found, unjudged=len(queries) - len(judged))


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
    unanswerable = [query.query_id for query in queries if judgements.get(query.query_id, set()).isdisjoint(paths)]
    if queries and len(unanswerable) == len(queries):
        raise ConfigurationError(f"{name}: no query, {unanswerable[0]!r} say, has a relevant document in the corpus.")
    relevant = {query.query_id: frozenset(judgements[query.query_id]) for query in queries}
    if len(relevant) != len(queries) or not queries:
        raise ConfigurationError(f"{name}: there are no queries, or two have the same id.")
    return JudgedSet(name=name, documents=documents, queries=queries, relevant=relevant, unanswerable=len(unanswerable))


def json_lines(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Each line's object and where it stands, for messages; raises `ConfigurationError`."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                at = f"{path.parent.name}/{path.name}:{number}"
                try:
                    row = json.loads(line)
                    if _HALF_ESCAPED.search(line):
                        row = _whole(row)
                except ValueError as error:
                    raise ConfigurationError(f"{at}: no JSON ({error}).") from error
                if not isinstance(row, dict):
                    raise ConfigurationError(f"{at}: not an object.")
                yield row, at
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8: {error}.") from error


def _whole(value: Any) -> Any:
    """The value with halves of characters replaced, wherever they stand in it."""
    if isinstance(value, str):
        return _HALVES.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return {_whole(key): _whole(item) for key, item in value.items()} if isinstance(value, dict) else value


def read_judgements(path: Path) -> list[dict[str, str]]:
    """The rows whose relevance is above 0, by column; raises `ConfigurationError`."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [row for row in rows if _is_relevant(row, f"{path.parent.name}/{path.name}:{rows.line_num}")]
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8: {error}.") from error


def _is_relevant(row: Mapping[str, str], at: str) -> bool:
    try:
        return bool(row["query_id"] and row["path"]) and float(row["relevance"]) > 0
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{at}: no query_id, path and a number as relevance.") from error


def title_of(row: Mapping[str, Any]) -> str:
    """A document's title; nothing where there is none."""
    return "" if row.get("title") is None else str(row["title"])


def _path(row: Mapping[str, Any], at: str) -> str:
    path = _text(row, "path", at)
    if not path or "\0" in path:
        raise ConfigurationError(f"{at}: {path[:120]!r} can't be the path of a document.")
    return path


def _text(row: Mapping[str, Any], name: str, at: str) -> str:
    if not isinstance(row.get(name), str):
        raise ConfigurationError(f"{at}: no text under {name!r}.")
    return str(row[name])


def _identifier(row: Mapping[str, Any], at: str) -> str:
    """A query's id: a text, or a number that stands in the judgements as text."""
    found = row.get("id")
    return str(found) if type(found) is int else _text(row, "id", at)
