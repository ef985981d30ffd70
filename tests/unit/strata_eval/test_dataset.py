"""A judged set is read whole, or its fault is named with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import ConfigurationError
from strata_eval.dataset import read_set

CORPUS = '{"path": "a.md", "title": "A", "text": "alpha", "lang": "en"}\n{"path": "b.md", "text": "beta"}\n'
QUERIES = '{"id": "q1", "text": "which is first?"}\n'
QRELS = "query_id\tpath\trelevance\tmore\nq1\ta.md\t1\tx\nq1\tb.md\t0\ty\n"


def write_set(folder: Path, *, corpus: str = CORPUS, queries: str = QUERIES, qrels: str = QRELS) -> Path:
    (folder / "corpus.jsonl").write_text(corpus, encoding="utf-8")
    (folder / "queries.jsonl").write_text(queries, encoding="utf-8")
    (folder / "qrels.tsv").write_text(qrels, encoding="utf-8")
    return folder


def test_a_set_is_read(tmp_path: Path) -> None:
    judged = read_set(write_set(tmp_path))
    assert [document.path for document in judged.documents] == ["a.md", "b.md"]
    assert judged.documents[1].title == ""
    assert judged.relevant == {"q1": frozenset({"a.md"})}


def test_a_line_separator_inside_a_text_does_not_end_the_line(tmp_path: Path) -> None:
    corpus = '{"path": "a.md", "text": "one\u2028two"}\n'
    assert read_set(write_set(tmp_path, corpus=corpus)).documents[0].text == "one\u2028two"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        pytest.param({"corpus": CORPUS + "{"}, "corpus.jsonl is not JSON Lines", id="a broken line"),
        pytest.param({"corpus": "[1]\n"}, r"corpus.jsonl:1: not an object", id="no object"),
        pytest.param({"corpus": '{"path": "a.md"}\n'}, r"corpus.jsonl:1: no text under 'text'", id="no text"),
        pytest.param({"corpus": CORPUS + CORPUS}, "same path", id="a path twice"),
        pytest.param({"queries": QUERIES + QUERIES}, "the same id", id="a query twice"),
        pytest.param({"queries": ""}, "no queries", id="no queries"),
        pytest.param({"qrels": "query_id\tpath\trelevance\n"}, "'q1' has no relevant document", id="no judgement"),
        pytest.param(
            {"qrels": "query_id\tpath\trelevance\nq1\tz.md\t1\n"}, "'q1' has no relevant", id="judged elsewhere"
        ),
        pytest.param({"qrels": "query\tpath\trelevance\nq1\ta.md\t1\n"}, "does not hold query_id", id="a column"),
        pytest.param({"qrels": "query_id\tpath\trelevance\nq1\ta.md\tyes\n"}, "whole number", id="no number"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, parts: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_set(write_set(tmp_path, **parts))


@pytest.mark.parametrize("missing", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    (write_set(tmp_path) / missing).unlink()
    with pytest.raises(ConfigurationError, match=rf"{missing} can't be read"):
        read_set(tmp_path)
