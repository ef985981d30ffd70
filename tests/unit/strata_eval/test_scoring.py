"""The figures of a run, against values worked out by hand; golden pieces and symbols beside files."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from strata.errors import ConfigurationError
from strata.model.asking import Candidate
from strata.model.corpus import Span
from strata_eval.dataset import JudgedDocument, JudgedQuery, JudgedSet, judged_set
from strata_eval.judgements import Golden, read_given_chunks, read_golden
from strata_eval.scoring import score
from tests.support.asking import candidate

SECOND, THIRD = 1 / math.log2(3), 1 / math.log2(4)


def row(path: str, start: int, end: int) -> Candidate:
    return candidate(1, path, (start, end))


def judged(**relevant: set[str]) -> JudgedSet:
    documents = tuple(JudgedDocument(path=path, title="", text="") for path in ("a", "b", "c", "d"))
    queries = tuple(JudgedQuery(query_id=name, text=name) for name in relevant)
    return judged_set("set", documents, queries, relevant)


def test_files_rank_by_their_first_row_and_the_means_are_over_queries() -> None:
    ranked = [row("d", 1, 2), row("d", 3, 4), row("a", 1, 2), row("b", 1, 2), row("a", 3, 4)]
    metrics = score(judged(one={"a", "missing"}, two={"c"}), [ranked, []], {}).metrics
    # One: files d, a, b; a is second, and of two relevant ones one can't be found. Two: nothing was found.
    assert metrics == {
        "hit@1": 0.0,
        "hit@5": 0.5,
        "hit@10": 0.5,
        "mrr@10": 0.25,
        "ndcg@10": round(SECOND / (1 + SECOND) / 2, 4),
        "precision@5": 0.2,
        "precision@5_by_document": 0.1,
    }


def test_pass_is_the_share_of_golden_chunks_and_a_chunk_of_ours_must_cover_half_of_one() -> None:
    golden = {
        "one": [
            Golden(path="a", span=Span(start=1, end=10), chunk=0),
            Golden(path="b", span=Span(start=1, end=10), chunk=0),
        ]
    }
    ranked = [row("a", 7, 30), row("a", 1, 4), *[row("c", 1, 1)] * 4, row("b", 6, 10)]
    metrics = score(judged(one={"a", "b"}), [ranked], golden).metrics
    # Lines 7 to 10 and 1 to 4 are less than half of a's ten each; b's piece, five of ten, comes seventh.
    assert {name: metrics[name] for name in ("pass@5", "pass@10", "pass@20", "precision@5_by_chunk")} == {
        "pass@5": 0.0, "pass@10": 0.5, "pass@20": 0.5, "precision@5_by_chunk": 0.0
    }  # fmt: skip


def test_a_symbol_counts_once_at_the_first_row_that_meets_it() -> None:
    golden = {"one": [Golden(path="a", span=Span(start=5, end=6)), Golden(path="a", span=Span(start=8, end=9))]}
    ranked = [row("b", 1, 9), row("a", 6, 6), row("a", 5, 5), row("a", 1, 4)]
    metrics = score(judged(one={"a"}), [ranked], golden).metrics
    assert metrics["symbol_hit@10"] == 1.0
    assert metrics["symbol_ndcg@10"] == round(SECOND / (1 + SECOND), 4)
    both = [row("b", 1, 9), row("a", 6, 6), row("a", 8, 9)]
    assert score(judged(one={"a"}), [both], golden).metrics["symbol_ndcg@10"] == round(
        (SECOND + THIRD) / (1 + SECOND), 4
    )


def write(folder: Path, corpus: object, qrels: str) -> Path:
    (folder / "corpus.jsonl").write_text("\ufeff" + json.dumps(corpus) + "\r\n")
    (folder / "qrels.tsv").write_text("\ufeff" + qrels, newline="")
    return folder


CHUNKED = {"path": "a", "text": "one\ntwo\nthree\n", "chunks": ["one\n", "two\nthree\n"]}


def test_golden_pieces_are_read_with_their_lines(tmp_path: Path) -> None:
    head = "query_id\tpath\trelevance\tchunk_index\r\n"
    folder = write(tmp_path, CHUNKED, f"{head}q\ta\t1\t1\r\nq\ta\t1\t1\r\nq\ta\t0\tnothing\r\n")
    assert read_golden(folder) == {"q": (Golden(path="a", span=Span(start=2, end=3), chunk=1),)}
    assert [chunk.content for chunk in read_given_chunks(folder)["a"]] == CHUNKED["chunks"]


@pytest.mark.parametrize(
    ("head", "values"),
    [
        pytest.param("chunk_index", "2", id="no such chunk"),
        pytest.param("chunk_index", "first", id="no number of a chunk"),
        pytest.param("start_line\tend_line", "3\t", id="half of the lines"),
        pytest.param("start_line\tend_line", "3\t2", id="lines that end before they begin"),
        pytest.param("start_line", "3", id="no last line"),
    ],
)
def test_a_golden_piece_that_can_not_be_is_named(tmp_path: Path, head: str, values: str) -> None:
    folder = write(tmp_path, CHUNKED, f"query_id\tpath\trelevance\t{head}\nq\ta\t1\t{values}\n")
    with pytest.raises(ConfigurationError, match=r"qrels\.tsv: chunk_index must be"):
        read_golden(folder)


@pytest.mark.parametrize("columns", ["chunk_index", "symbol\tstart_line\tend_line"])
def test_a_row_that_names_no_piece_judges_its_file(tmp_path: Path, columns: str) -> None:
    blank = "\t" * columns.count("\t")
    piece = blank.replace("\t", "\t1") or "1"
    qrels = f"query_id\tpath\trelevance\t{columns}\r\nfile\ta\t1\t{blank}\r\npiece\ta\t1\t{piece}\r\n"
    assert list(read_golden(write(tmp_path, CHUNKED, qrels))) == ["piece"]


@pytest.mark.parametrize("without", [{}, {"chunks": None}], ids=["no chunks", "null"])
def test_a_document_without_chunks_of_its_own_is_one_chunk(tmp_path: Path, without: dict[str, None]) -> None:
    plain = {"path": "b", "title": None, "text": "four\nfive\n", **without}
    folder = write(tmp_path, CHUNKED, "query_id\tpath\trelevance\tchunk_index\nq\tb\t1\t0\n")
    with (folder / "corpus.jsonl").open("a") as file:
        file.write(json.dumps(plain) + "\n")
    (chunk,) = read_given_chunks(folder)["b"]
    assert (chunk.content, chunk.title, chunk.span) == (plain["text"], "", Span(start=1, end=2))
    assert read_golden(folder)["q"][0].span == chunk.span


def test_chunks_that_are_no_texts_are_named(tmp_path: Path) -> None:
    folder = write(tmp_path, {**CHUNKED, "chunks": [{"text": "one"}]}, "query_id\tpath\trelevance\nq\ta\t1\n")
    with pytest.raises(ConfigurationError, match=r"corpus\.jsonl:1: 'chunks' is not a list"):
        read_given_chunks(folder)
