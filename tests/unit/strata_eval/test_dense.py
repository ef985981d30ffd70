"""Documents are cut into windows, embedded once, and ranked by their best window."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from strata.model.corpus import Vector, Vectors
from strata.providers.hashed.embedder import HashedEmbedder
from strata_eval.dataset import JudgedDocument, JudgedQuery, JudgedSet
from strata_eval.dense import Window, cached_vectors, rankings, windows


def judged(*documents: JudgedDocument) -> JudgedSet:
    query = JudgedQuery(query_id="q", text="which one?")
    return JudgedSet(name="small", documents=documents, queries=(query,), relevant={"q": frozenset({"a"})})


class CountingEmbedder:
    """The hashed embedder, which remembers how many texts it was asked for."""

    model_id = "counting"
    dimension = 256
    max_tokens = 20
    languages: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.embedded = 0
        self._hashed = HashedEmbedder()

    def count(self, texts: Sequence[str]) -> list[int]:
        return self._hashed.count(texts)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.embedded += len(texts)
        return self._hashed.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self.embed_documents([text])[0]
        return vector


def test_windows_fit_the_limit_and_lose_nothing() -> None:
    lines = [f"line {number} has a few words\n" for number in range(30)]
    document = JudgedDocument(path="a", title="line 0", text="".join(lines))
    cut = windows(judged(document), CountingEmbedder())
    assert len(cut) > 5
    assert "".join(window.text for window in cut) == document.text
    assert max(CountingEmbedder().count([window.text for window in cut])) <= 20


def test_a_line_over_the_limit_is_a_window_of_its_own() -> None:
    document = JudgedDocument(path="a", title="", text="short\n" + "word " * 50 + "\nshort\n")
    assert [len(window.text.split()) for window in windows(judged(document), CountingEmbedder())] == [1, 50, 1]


def test_a_title_stands_over_the_text_unless_it_is_there() -> None:
    with_title = JudgedDocument(path="a", title="Lease", text="# Lease\n\nIt runs out.")
    without = JudgedDocument(path="b", title="Lease", text="It runs out.")
    found = [window.text for window in windows(judged(with_title, without), CountingEmbedder())]
    assert found == ["# Lease\n\nIt runs out.", "Lease\nIt runs out."]


def test_a_blank_document_has_no_window() -> None:
    assert windows(judged(JudgedDocument(path="a", title="", text=" \n ")), CountingEmbedder()) == []


def test_texts_are_embedded_once_for_each_model(tmp_path: Path) -> None:
    embedder, texts = CountingEmbedder(), ["one text", "another"]
    first = cached_vectors(texts, embedder, fingerprint="graph 1", cache=tmp_path)
    assert np.array_equal(cached_vectors(texts, embedder, fingerprint="graph 1", cache=tmp_path), first)
    assert embedder.embedded == 2
    cached_vectors(texts, embedder, fingerprint="graph 2", cache=tmp_path)
    cached_vectors(texts[:1], embedder, fingerprint="graph 1", cache=tmp_path)
    assert embedder.embedded == 5


def test_a_document_ranks_by_its_best_window_and_ties_by_its_place() -> None:
    documents = [JudgedDocument(path=path, title="", text=path) for path in ("a", "b", "c")]
    cut = [Window(path=path, text="") for path in ("a", "a", "b", "c")]
    vectors = np.array([[0, 1], [1, 0], [0.6, 0.8], [1, 0]], dtype=np.float32)
    queries = np.array([[1, 0], [0, 1]], dtype=np.float32)
    assert rankings(judged(*documents), cut, vectors, queries) == [["a", "c", "b"], ["a", "b", "c"]]


@pytest.mark.parametrize("documents", [3, 25])
def test_at_most_ten_documents_are_ranked(documents: int) -> None:
    corpus = [JudgedDocument(path=f"{number}", title="", text="x") for number in range(documents)]
    cut = [Window(path=document.path, text="") for document in corpus]
    vectors = np.eye(documents, dtype=np.float32)
    (ranking,) = rankings(judged(*corpus), cut, vectors, vectors[2:3])
    assert (len(ranking), ranking[0]) == (min(documents, 10), "2")
