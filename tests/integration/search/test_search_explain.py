"""The parts of a score add up, the words of a BM25 score too, and nobody learns what they may not know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.model.asking import Filter, Question
from strata.model.corpus import Layer
from strata.ports.search import SearchRequest
from strata.retrieval.analyser import query_terms
from tests.support.factories import identity
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


def test_parts_add_up_to_the_score_and_words_to_bm25(rows: SearchRows) -> None:
    rows.session("one", ANN)
    rows.commit("one", OPEN)
    plain = replace(rows.request("one", ASKED, identity=ANN), dense_weight=0.4, lexical_weight=1.3, exact_weight=2.0)
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
        assert {term.term for term in row.explanation.terms} <= set(query_terms(ASKED))
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
