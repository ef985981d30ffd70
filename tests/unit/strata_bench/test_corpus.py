"""What the benchmark indexes is read whole, or its fault is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata.errors import ConfigurationError
from strata.retrieval.retrieve import checked_text
from strata_bench.corpus import own_corpus, read_corpus
from strata_bench.given import read_chunks


def write(folder: Path, corpus: str, queries: str) -> Path:
    (folder / "corpus.jsonl").write_text(corpus, encoding="utf-8")
    (folder / "queries.jsonl").write_text(queries, encoding="utf-8")
    return folder


def test_files_and_questions_are_read(tmp_path: Path) -> None:
    found = read_corpus(write(tmp_path, '{"path": "a.py", "text": "x = 1"}\n', '{"id": "1", "text": "what is x?"}\n'))
    assert (found.files, found.questions) == ({"a.py": "x = 1"}, ("what is x?",))


def test_a_line_separator_inside_a_text_does_not_end_the_line(tmp_path: Path) -> None:
    found = read_corpus(write(tmp_path, '{"path": "a.py", "text": "one\u2028two"}\n', ""))
    assert found.files == {"a.py": "one\u2028two"}


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        pytest.param('{"path": "a.py"}\n', r"corpus\.jsonl:1 lacks a text", id="no text"),
        pytest.param("[]\n", r"corpus\.jsonl:1: not an object", id="no object"),
        pytest.param("{\n", r"corpus\.jsonl:1: no JSON", id="a broken line"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, corpus: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_corpus(write(tmp_path, corpus, ""))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"corpus\.jsonl can't be read"):
        read_corpus(tmp_path)


def test_questions_are_as_a_search_takes_them_and_those_without_a_word_are_left_out(tmp_path: Path) -> None:
    asked = ["", " \n", "?!", "\u200b", " a\0 question ", "cafe\u0301", "half \ud800", "word " * 20_000]
    queries = "".join(json.dumps({"text": text}) + "\n" for text in asked)
    found = read_corpus(write(tmp_path, '{"path": "a.py", "text": ""}\n', queries)).questions
    assert found[:2] == ("a question", "caf\u00e9")
    assert len(found) == 4
    assert all(checked_text(text) == text for text in found)


@pytest.mark.parametrize("path", ["/a.md", "a/../b.md", "C:\\b.md", "a" * 2_000, "tab\t.md", ""])
def test_a_path_that_no_upload_may_hold_is_left_out(tmp_path: Path, path: str) -> None:
    rows = [{"path": "./e\u0301.md", "text": "x"}, {"path": path, "text": "y"}]
    found = read_corpus(write(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), ""))
    assert (found.files, found.refused) == ({"\u00e9.md": "x"}, (path,))


def test_a_corpus_without_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no file"):
        read_corpus(write(tmp_path, "", ""))


def test_this_project_is_a_corpus() -> None:
    found = own_corpus()
    assert "layers/common/strata/errors.py" in found.files
    assert len(found.questions) > 100


def test_chunks_without_text_are_left_out_of_those_that_somebody_else_cut(tmp_path: Path) -> None:
    path = tmp_path / "chunks.jsonl"
    rows = [{"path": "a.md", "text": text} for text in ("one\n", "", " \n", "two")]
    path.write_text("\r\n".join(json.dumps(row) for row in rows))
    assert [(chunk.ordinal, chunk.content) for chunk in read_chunks(path)] == [(0, "one\n"), (1, "two")]
    path.write_text(json.dumps(rows[1]))
    with pytest.raises(ConfigurationError, match="holds no chunk"):
        read_chunks(path)
