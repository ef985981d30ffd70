"""The parts of a score add up, the words of a BM25 score too, and nobody learns what they may not know."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from strata.contracts.searching import RetrievedView
from strata.errors import RerankerUnavailable
from strata.model.asking import Expansion, Filter, Question
from strata.model.corpus import Layer
from strata.ports.reranking import Reranker
from strata.ports.search import SearchRequest
from strata.retrieval import cross_encoder, explain, features
from strata.retrieval.analyser import query_terms
from strata.retrieval.cross_encoder import CrossEncoderReranker
from strata.retrieval.features import FeatureReranker
from strata.retrieval.retrieve import Retriever
from tests.support.asking import EMBEDDER, ScriptedExpander
from tests.support.factories import identity
from tests.support.models import FakeScorer
from tests.support.search_rows import SearchRows, TextFile

ANN, BOB = identity("ann"), identity("bob", groups=["red"])
OPEN = [
    TextFile("src/lease.py", ["the lease: renew_lease renews it", "a lease ends"], layer=Layer.C0_SOURCE_CHUNKS),
    TextFile("docs/lease.md", ["what a lease is: a lock with an end", "words without any"]),
    TextFile("tests/test_lease.py", ["test that renew_lease renews"], layer=Layer.C0_SOURCE_CHUNKS),
]  # fmt: skip
ASKED = 'how is the lease renewed by renew_lease, "a lease ends"'


def explained(request: SearchRequest) -> SearchRequest:
    return replace(request, question=replace(request.question, explain=True))


@pytest.mark.parametrize("asked", [ASKED, f"Ends of a lease\n{ASKED}"], ids=["one line", "under a title"])
def test_parts_add_up_to_the_score_and_words_to_bm25(rows: SearchRows, asked: str) -> None:
    rows.session("one", ANN)
    rows.commit("one", OPEN)
    plain = replace(rows.request("one", asked, identity=ANN), dense_weight=0.4, lexical_weight=1.3, exact_weight=2.0)
    found = rows.search.search(explained(plain)).candidates
    assert len(found) == 5
    assert [replace(row, explanation=None) for row in found] == list(rows.search.search(plain).candidates)
    for row in found:
        assert row.explanation is not None
        assert sum(part.part for part in row.explanation.parts) == pytest.approx(row.score)
        ranks = {part.name: part.rank for part in row.explanation.parts}
        expected = {"dense": row.dense_rank, "lexical": row.lexical_rank, "exact": row.exact_rank}
        assert ranks == {name: rank for name, rank in expected.items() if rank is not None}
        assert row.explanation.terms is not None
        assert sum(term.part for term in row.explanation.terms) == pytest.approx(row.bm25, rel=1e-5, abs=1e-6)
        assert {term.term for term in row.explanation.terms} <= set(query_terms(asked))
        assert row.explanation.allowed_by == "user:ann reads the session; the file has no list of its own"
    assert "renew_lease" in {term.term for row in found for term in (row.explanation and row.explanation.terms) or ()}
    assert {part.name for row in found if row.explanation for part in row.explanation.parts} == {
        "dense",
        "lexical",
        "exact",
    }


def test_preferences_are_told_beside_the_score(rows: SearchRows) -> None:
    rows.session("one", ANN)
    rows.commit("one", OPEN)
    filter = Filter(prefer_path_prefixes=("docs/",), prefer_non_tests=True)
    found = rows.search.search(explained(rows.request("one", ASKED, identity=ANN, filter=filter))).candidates
    assert [row.prefer_bonus for row in found] == [1, 1, 0, 0, 0]
    assert found[-1].test_penalty == 1
    for row in found:
        assert row.explanation is not None
        assert sum(part.part for part in row.explanation.parts) == pytest.approx(row.score)


def length(_question: str, passage: str) -> float:
    return float(len(passage))


def refusal(_question: str, _passage: str) -> float:
    raise RerankerUnavailable


FEATURES = FeatureReranker(languages=EMBEDDER.languages)
RERANKERS: dict[str, Reranker | None] = {
    "none": None,
    "features": FEATURES,
    "cross-encoder": CrossEncoderReranker(scorer=FakeScorer(length), timeout_s=5.0),
    "cross-encoder of three rows behind features": CrossEncoderReranker(
        scorer=FakeScorer(length), timeout_s=5.0, before=FEATURES, rows=3
    ),
    "cross-encoder that fails": CrossEncoderReranker(scorer=FakeScorer(refusal), timeout_s=5.0, before=FEATURES),
}
SENTENCES = explain.SENTENCES | features.SENTENCES | cross_encoder.SENTENCES
FILTERS = {
    "no preference": Filter(),
    "preferences": Filter(prefer_path_prefixes=("docs/",), prefer_non_tests=True),
    "a layer without vectors too": Filter(layers=(Layer.C0_SOURCE_CHUNKS, Layer.D2_FACT_INDEX)),
}


@pytest.mark.parametrize(
    "expansion", [Expansion(), Expansion(query="who holds a lock", passage="It ends.")], ids=["", "expanded"]
)
@pytest.mark.parametrize("filter", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("reranker", RERANKERS.values(), ids=RERANKERS)
def test_every_row_of_every_mode_adds_up(
    rows: SearchRows, reranker: Reranker | None, filter: Filter, expansion: Expansion
) -> None:
    rows.session("one", ANN, dimension=EMBEDDER.dimension, embedding_model=EMBEDDER.model_id)
    facts = [TextFile(f"docs/f{number}.md", [text], layer=Layer.D2_FACT_INDEX) for number, text in enumerate("ab")]
    rows.commit("one", [*OPEN, *facts, TextFile("docs/lease2.md", ["another page of a lease"])])
    retriever = Retriever(
        search=rows.search, embedder=EMBEDDER, depth=50, reranker=reranker, expander=ScriptedExpander(expansion)
    )
    plain = Question(text=ASKED, session_id="one", identity=ANN, filter=filter, limit=50)
    found = retriever.retrieve(replace(plain, explain=True))
    assert [replace(row, explanation=None) for row in found.candidates] == list(retriever.retrieve(plain).candidates)
    assert len(found.candidates) > 3
    for row in RetrievedView.of("one", found, datetime.now(UTC)).model_dump(mode="json")["rows"]:
        explained = row["explain"]
        assert sum(part["part"] for part in explained["parts"]) == pytest.approx(row["score"], abs=1e-9)
        for part in explained["parts"]:
            base = part["value"] if part["rank"] is None else 1 / (60 + part["rank"])
            assert part["part"] == pytest.approx(part["weight"] * base)
            assert part["sentence"] == SENTENCES[part["name"]]
        assert sum(term["part"] for term in explained["terms"]) == pytest.approx(row["bm25"], rel=1e-5, abs=1e-6)


def test_statistics_are_hidden_where_a_file_is_restricted(rows: SearchRows) -> None:
    rows.session("one", ANN, readers=["group:red"])
    rows.commit("one", [*OPEN, TextFile("hr/pay.md", ["the lease of the boss"], acl=("user:ann",))])
    for caller in (ANN, BOB):
        found = rows.search.search(explained(rows.request("one", ASKED, identity=caller))).candidates
        assert all(row.explanation is not None and row.explanation.terms is None for row in found)
        assert ("hr/pay.md" in {row.path for row in found}) == (caller is ANN)
    rows.commit("one", rights=[TextFile("hr/pay.md", ["the lease of the boss"])])
    found = rows.search.search(explained(rows.request("one", ASKED, identity=BOB))).candidates
    assert all(row.explanation is not None and row.explanation.terms is not None for row in found)


def test_the_rule_names_only_the_callers_own_principals(rows: SearchRows) -> None:
    rows.session("one", ANN, readers=["group:red", "user:cat"])
    rows.commit("one", [TextFile("a.md", ["lease"], acl=("group:red", "user:cat", "user:ann"))])
    (found,) = rows.search.search(explained(rows.request("one", "lease", identity=BOB))).candidates
    assert found.explanation is not None
    assert found.explanation.allowed_by == "group:red reads the session; the file's own list names group:red"


def test_a_lexical_search_explains_its_one_list(rows: SearchRows) -> None:
    rows.session("one", ANN)
    rows.commit("one", OPEN)
    found = rows.search.search(explained(rows.request("one", "words", identity=ANN, dense=False))).candidates
    (row,) = found
    assert row.explanation is not None
    assert [part.name for part in row.explanation.parts] == ["lexical"]


def test_explaining_is_not_part_of_a_question_by_default() -> None:
    assert not Question(text="a", session_id="one", identity=ANN).explain
