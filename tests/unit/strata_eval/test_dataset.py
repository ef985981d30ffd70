"""A judged set is read whole, or its fault is named with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import ConfigurationError
from strata_eval.dataset import read_set
from strata_eval.judgements import read_given_chunks

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
        pytest.param({"corpus": CORPUS + "{"}, r"corpus.jsonl:3: no JSON", id="a broken line"),
        pytest.param({"corpus": "[1]\n"}, r"corpus.jsonl:1: not an object", id="no object"),
        pytest.param({"corpus": '{"path": "a.md"}\n'}, r"corpus.jsonl:1: no text under 'text'", id="no text"),
        pytest.param({"corpus": CORPUS + CORPUS}, "same path", id="a path twice"),
        pytest.param({"corpus": '{"path": "", "text": "x"}\n'}, r"corpus.jsonl:1: '' can't be", id="an empty path"),
        pytest.param({"corpus": '{"path": "a\\u0000", "text": "x"}\n'}, "can't be the path", id="NUL in a path"),
        pytest.param({"queries": QUERIES + QUERIES}, "the same id", id="a query twice"),
        pytest.param({"queries": ""}, "no queries", id="no queries"),
        pytest.param({"qrels": "query_id\tpath\trelevance\n"}, "judges none of the 1 queries", id="no judgement"),
        pytest.param(
            {"qrels": "query_id\tpath\trelevance\nq1\ta.md\n"},
            "qrels.tsv:2: no query_id, path and a number",
            id="a row cut short",
        ),
        pytest.param(
            {"qrels": "query_id\tpath\trelevance\nq1\tz.md\t1\n"}, "'q1' say, has a relevant", id="judged elsewhere"
        ),
        pytest.param({"qrels": "query\tpath\trelevance\nq1\ta.md\t1\n"}, "qrels.tsv:2: no query_id", id="a column"),
        pytest.param(
            {"qrels": "query_id\tpath\trelevance\nq1\ta.md\tyes\n"},
            "qrels.tsv:2: no query_id, path and a number",
            id="no number",
        ),
    ],
)
def test_a_fault_is_named(tmp_path: Path, parts: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_set(write_set(tmp_path, **parts))


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte-order mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"], ids=["LF", "CRLF", "empty lines"])
def test_marks_and_ends_of_lines_make_no_difference(tmp_path: Path, mark: str, end: str) -> None:
    def written(text: str) -> str:
        return mark + text.replace("\n", end)

    for name, text in (("corpus.jsonl", CORPUS), ("queries.jsonl", QUERIES), ("qrels.tsv", QRELS)):
        (tmp_path / name).write_bytes(written(text).encode())
    judged = read_set(tmp_path)
    assert [document.path for document in judged.documents] == ["a.md", "b.md"]
    assert [query.text for query in judged.queries] == ["which is first?"]
    assert judged.relevant == {"q1": frozenset({"a.md"})}


def test_grades_count_alike_and_ids_may_hold_blanks_and_any_letters(tmp_path: Path) -> None:
    corpus = '{"path": "документы/о блокировках.md", "text": "x"}\n{"path": "a b.md", "text": ""}\n'
    queries = '{"id": "вопрос 1", "text": "y"}\n{"id": 7, "text": "z"}\n'
    qrels = (
        "query_id\tpath\trelevance\nвопрос 1\tдокументы/о блокировках.md\t2\nвопрос 1\ta b.md\t0\n"
        "7\ta b.md\t1\n7\tnot in the corpus.md\t1\nunknown\ta b.md\t1\n"
    )
    judged = read_set(write_set(tmp_path, corpus=corpus, queries=queries, qrels=qrels))
    assert judged.relevant == {
        "вопрос 1": frozenset({"документы/о блокировках.md"}),
        "7": frozenset({"a b.md", "not in the corpus.md"}),
    }


def test_a_query_to_which_nothing_is_relevant_is_left_out_and_counted(tmp_path: Path) -> None:
    queries = QUERIES + '{"id": "q2", "text": "judged as wrong"}\n{"id": "q3", "text": "never judged"}\n'
    judged = read_set(write_set(tmp_path, queries=queries, qrels=f"{QRELS}q2\ta.md\t0\n"))
    assert ([query.query_id for query in judged.queries], judged.unjudged) == (["q1"], 2)


def test_a_query_whose_documents_are_all_missing_is_counted_and_asked(tmp_path: Path) -> None:
    queries = QUERIES + '{"id": "q2", "text": "answered elsewhere"}\n'
    judged = read_set(write_set(tmp_path, queries=queries, qrels=f"{QRELS}q2\tz.md\t1\n"))
    assert ([query.query_id for query in judged.queries], judged.unanswerable) == (["q1", "q2"], 1)


@pytest.mark.parametrize(
    ("relevance", "relevant"), [("1.0", True), ("2", True), ("0.5", True), ("0.0", False), ("-1", False)]
)
def test_relevance_is_any_number_and_above_0_is_relevant(tmp_path: Path, relevance: str, relevant: bool) -> None:
    judged = read_set(write_set(tmp_path, qrels=f"{QRELS}q1\tb.md\t{relevance}\n"))
    assert ("b.md" in judged.relevant["q1"]) == relevant


@pytest.mark.parametrize("title", ["", ', "title": null', ', "title": ""'])
def test_a_document_needs_no_title(tmp_path: Path, title: str) -> None:
    judged = read_set(write_set(tmp_path, corpus=f'{{"path": "a.md"{title}, "text": "alpha"}}\n'))
    assert judged.documents[0].title == ""


def test_halves_of_characters_are_replaced_and_whole_ones_stay(tmp_path: Path) -> None:
    escaped = r"cut \ud83d, whole \ud83d\ude00, \\ud800 of code"
    corpus = f'{{"path": "a.md", "text": "{escaped}", "chunks": ["{escaped}"]}}\n'
    queries = f'{{"id": "q1", "text": "{escaped}"}}\n'
    judged = read_set(write_set(tmp_path, corpus=corpus, queries=queries))
    expected = "cut \ufffd, whole \U0001f600, \\ud800 of code"
    assert judged.documents[0].text == judged.queries[0].text == expected
    assert [chunk.content for chunk in read_given_chunks(tmp_path)["a.md"]] == [expected]


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (write_set(tmp_path) / "queries.jsonl").write_bytes('{"id": "q1", "text": "вопрос"}\n'.encode("cp1251"))
    with pytest.raises(ConfigurationError, match=r"queries\.jsonl is not UTF-8"):
        read_set(tmp_path)


@pytest.mark.parametrize("missing", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    (write_set(tmp_path) / missing).unlink()
    with pytest.raises(ConfigurationError, match=rf"{missing} can't be read"):
        read_set(tmp_path)
