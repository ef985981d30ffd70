from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from strata.errors import InvalidPath, InvalidQuery, InvalidRequest, SessionNotFound
from strata.model.access import Session
from strata.model.asking import Filter, Question
from strata.model.corpus import EmbeddedChunk, Layer, Vector, Vectors
from strata.model.terms import TermCounts
from strata.retrieval.analyser import analyse
from strata.retrieval.features import FeatureReranker
from strata.retrieval.filters import DEFAULT_LAYERS
from strata.retrieval.retrieve import RERANKED_ROWS, Retriever, checked_text
from tests.support.chunk_search import FakeChunkSearch, IndexedChunk
from tests.support.factories import EMBEDDING_MODEL, embedded_chunk, identity, unit_vector
from tests.support.parsing import parsed


class StrictEmbedder:
    """Refuses blank text, as providers do."""

    model_id = EMBEDDING_MODEL
    dimension = 8
    max_tokens = 100
    languages: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.stack([unit_vector(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        assert text.strip()
        self.texts.append(text)
        return unit_vector(text)


@pytest.fixture
def search() -> FakeChunkSearch:
    search = FakeChunkSearch()
    search.sessions["one"] = Session(
        session_id="one", tenant="acme", project_id="shop", repo_id="shop", owner="user:ann", readers=(), generation=3,
        applied_seq=1, fence=1, embedding_model=EMBEDDING_MODEL, dimension=8, pipeline_version="1",
    )  # fmt: skip
    texts = [
        ("a.py", Layer.C0_SOURCE_CHUNKS, "def reset_secret(): pass"),
        ("b.md", Layer.D3_SECTION_INDEX, "Reset secrets."),
    ]
    search.chunks["one"] = [
        IndexedChunk(
            number, embedded_chunk(text, path=path, layer=layer, term_counts=Counter(analyse(text))), "f" * 64, text
        )
        for number, (path, layer, text) in enumerate(texts)
    ]
    search.average_lengths["one"] = {Layer.C0_SOURCE_CHUNKS: 6.0, Layer.D3_SECTION_INDEX: 2.0}
    return search


@pytest.fixture
def embedder() -> StrictEmbedder:
    return StrictEmbedder()


@pytest.fixture
def retriever(search: FakeChunkSearch, embedder: StrictEmbedder) -> Retriever:
    return Retriever(search=search, embedder=embedder, depth=50)


def question(text: str) -> Question:
    return Question(text=text, session_id="one", identity=identity())


def test_question_is_searched_by_meaning_and_by_words(
    retriever: Retriever, search: FakeChunkSearch, embedder: StrictEmbedder
) -> None:
    retrieved = retriever.retrieve(question("  how to reset secrets?\x00 "))
    assert (retrieved.generation, retrieved.embedding_model) == (3, EMBEDDING_MODEL)
    assert {row.path for row in retrieved.candidates} == {"a.py", "b.md"}
    assert embedder.texts == ["how to reset secrets?"]
    assert search.requests[0].terms == ("reset", "secret")
    assert search.requests[0].depth == 50


def test_the_first_line_of_a_report_leads_it(retriever: Retriever, search: FakeChunkSearch) -> None:
    report = "Secrets are lost\n\nAfter a restart nothing is left of them."
    retriever.retrieve(question(report))
    retriever.retrieve_lexical_code(question(report))
    retriever.retrieve(question(f"{report.splitlines()[0]}\n"))
    assert [request.leading_terms for request in search.requests] == [("secret", "lost"), ("secret", "lost"), ()]


@pytest.mark.parametrize("text", ["", "   ", "\n", "!!!", "🙂", "\u200b", "\x00", "\ud800", "?? :: --"])
def test_question_without_a_word_is_refused_before_anything_is_called(
    retriever: Retriever, search: FakeChunkSearch, embedder: StrictEmbedder, text: str
) -> None:
    with pytest.raises(InvalidQuery, match="question"):
        retriever.retrieve(question(text))
    assert retriever.retrieve_lexical_code(question(text)) == ()
    assert (search.requests, embedder.texts) == ([], [])


def test_question_is_at_most_8000_characters_long(retriever: Retriever) -> None:
    assert retriever.retrieve(question(" " + "word " * 1_600)).candidates
    with pytest.raises(InvalidQuery, match="8001"):
        retriever.retrieve(question("x" * 8_001))
    with pytest.raises(InvalidQuery, match="8001"):
        retriever.retrieve_lexical_code(question("x" * 8_001))


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_is_at_least_one(retriever: Retriever, limit: int) -> None:
    with pytest.raises(InvalidRequest, match="limit"):
        retriever.retrieve(replace(question("reset"), limit=limit))


def test_emoji_beside_a_word_is_no_obstacle(retriever: Retriever) -> None:
    assert retriever.retrieve(question("🙂 reset 🙂")).candidates


def test_lexical_code_asks_source_chunks_alone_and_embeds_nothing(
    retriever: Retriever, search: FakeChunkSearch, embedder: StrictEmbedder
) -> None:
    asked = replace(question("reset secret"), filter=Filter(layers=(Layer.D3_SECTION_INDEX,), path_prefixes=("a",)))
    assert [row.path for row in retriever.retrieve_lexical_code(asked)] == ["a.py"]
    assert search.requests[0].embedding is None
    assert search.requests[0].question.filter == Filter(layers=(Layer.C0_SOURCE_CHUNKS,), path_prefixes=("a",))
    assert embedder.texts == []


def test_exact_files_are_read_without_an_embedder(retriever: Retriever, embedder: StrictEmbedder) -> None:
    found = retriever.retrieve_exact_files("one", identity(), ["", "./b.md", "a.py"])
    assert [row.path for row in found] == ["b.md", "a.py"]
    only = retriever.retrieve_exact_files("one", identity(), ["b.md", "a.py"], layers=[Layer.C0_SOURCE_CHUNKS])
    assert [row.path for row in only] == ["a.py"]
    assert retriever.retrieve_exact_files("no session is asked", identity(), ["", " "]) == ()
    with pytest.raises(InvalidPath):
        retriever.retrieve_exact_files("one", identity(), ["../secret.md"])
    with pytest.raises(SessionNotFound):
        retriever.retrieve_exact_files("one", identity("bob"), ["a.py"])
    assert embedder.texts == []


def test_a_search_without_layers_covers_the_default_ones(retriever: Retriever, search: FakeChunkSearch) -> None:
    retriever.retrieve(question("reset"))
    named = replace(question("reset"), filter=Filter(layers=(Layer.D2_FACT_INDEX,)))
    retriever.retrieve(named)
    assert [request.question.filter.layers for request in search.requests] == [
        DEFAULT_LAYERS,
        (Layer.D2_FACT_INDEX,),
    ]


def test_ten_rows_are_the_first_ten_of_more(search: FakeChunkSearch) -> None:
    texts = [
        (f"src/file{number % 7}.py", f"def reset_secret_{number}(): " + "pass " * (number % 5)) for number in range(90)
    ]
    search.chunks["one"] = [
        IndexedChunk(
            number,
            embedded_chunk(
                text, path=path, layer=Layer.C0_SOURCE_CHUNKS, term_counts=Counter(analyse(text)), ordinal=number
            ),
            "f" * 64,
            text,
        )
        for number, (path, text) in enumerate(texts)
    ]
    retriever = Retriever(
        search=search, embedder=StrictEmbedder(), depth=20, reranker=FeatureReranker(languages=frozenset())
    )
    found = [
        [row.chunk_id for row in retriever.retrieve(replace(question("reset the secret"), limit=limit)).candidates]
        for limit in (3, 10, RERANKED_ROWS // 2)
    ]
    assert [len(rows) for rows in found] == [3, 10, RERANKED_ROWS // 2]
    assert found[0] == found[2][:3]
    assert found[1] == found[2][:10]


def test_a_question_names_files_as_they_are_stored() -> None:
    assert checked_text("see docs/e\u0301te\u0301.md") == "see docs/\u00e9t\u00e9.md"


def test_neighbouring_rows_become_one_where_more_are_found_than_asked_for(
    search: FakeChunkSearch, embedder: StrictEmbedder
) -> None:
    text = "".join(f"def secret_{number}():\n    return reset({number})\n\n\n" for number in range(30))
    chunks = parsed("c.py", text, chunk_tokens=60).chunks
    search.chunks["one"] = [
        IndexedChunk(
            number,
            EmbeddedChunk(
                chunk=chunk,
                embedding=unit_vector(chunk.content),
                terms=TermCounts.of(Counter(analyse(chunk.content))),
            ),
            "f" * 64,
            text,
            metadata=chunk.metadata,
        )
        for number, chunk in enumerate(chunks, 1)
    ]
    together = Retriever(search=search, embedder=embedder, depth=50, row_tokens=500)
    code = Filter(layers=(Layer.C0_SOURCE_CHUNKS,))
    asked = [replace(question("reset a secret"), filter=code, limit=limit) for limit in (1, 3)]
    (row,) = together.retrieve(asked[0]).candidates
    assert row.content == "\n".join(text.split("\n")[row.span.start - 1 : row.span.end])
    assert row.also
    assert [len(together.retrieve(one).candidates) for one in asked] == [1, 3]
