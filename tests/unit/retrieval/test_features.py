"""The reranker's fields are on one scale, its parts add up, and what a caller prefers stays in front."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata.model.access import Identity
from strata.model.asking import Candidate, Explanation, Question, Retrieved
from strata.model.corpus import Layer, Span
from strata.retrieval.features import FEATURES, FeatureReranker, feature_rows, shipped_weights

ENGLISH = frozenset({"en"})


def row(chunk_id: int, **changes: Any) -> Candidate:
    values: dict[str, Any] = {
        "path": f"src/file{chunk_id}.py", "layer": Layer.C0_SOURCE_CHUNKS, "ordinal": 0, "title": "t",
        "content": "def run(): pass", "span": Span(start=1, end=5), "blob_sha": "", "metadata": {}, "score": 0.01,
        "dense_rank": None, "distance": 0.9, "lexical_rank": None, "bm25": 0.0,
    }  # fmt: skip
    return Candidate(chunk_id=chunk_id, **{**values, **changes})


def retrieved(*rows: Candidate, best_distance: float | None = None, greatest_bm25: float | None = None) -> Retrieved:
    return Retrieved(
        candidates=rows, generation=1, embedding_model="m", best_distance=best_distance, greatest_bm25=greatest_bm25
    )


def question(text: str) -> Question:
    return Question(text=text, session_id="s", identity=Identity(subject="ann", tenant="acme"))


def column(name: str, text: str, found: Retrieved, languages: frozenset[str] = ENGLISH) -> list[float]:
    return [float(value) for value in feature_rows(text, found, languages)[:, FEATURES.index(name)]]


def test_scores_are_measured_against_the_best_of_their_list() -> None:
    found = retrieved(
        row(1, distance=0.4, bm25=3.0), row(2, distance=0.7, bm25=6.0), best_distance=0.4, greatest_bm25=12.0
    )
    assert column("dense_for_code", "how to run", found) == pytest.approx([1.0, 0.5])
    assert column("bm25", "how to run", found) == pytest.approx([0.25, 0.5])


def test_a_vector_of_a_language_that_is_not_understood_says_nothing() -> None:
    found = retrieved(row(1, distance=0.1, dense_rank=1, bm25=1.0), row(2, bm25=2.0))
    for name in ("cosine", "dense_for_code", "file_text_dense", "file_entry_dense"):
        assert column(name, "как запустить", found) == [0.0, 0.0]
    assert column("bm25_unsure", "как запустить", found) == [0.5, 1.0]


def among_others(content: str) -> Retrieved:
    """A row that says this, which has the greatest BM25, and thirty that hold no word of any question here."""
    return retrieved(row(0, bm25=4.0, content=content), *(row(n, bm25=2.0, content="...") for n in range(1, 31)))


@pytest.mark.parametrize(
    ("content", "least", "most"),
    [
        pytest.param("the lease of a lock", 1.0, 1.0, id="half of the words stand in a file"),
        pytest.param("срок замка: lock", 0.1, 0.5, id="a name alone"),
        pytest.param("срок аренды замка", 0.0, 0.0, id="none, in another language"),
    ],
)
def test_words_count_less_where_no_file_holds_many_of_them(content: str, least: float, most: float) -> None:
    found = among_others(content)
    bm25, together = (column(name, "lock lease holder renewal", found) for name in ("bm25", "file_bm25"))
    assert least <= bm25[0] <= most
    assert bm25[1:] == pytest.approx([bm25[0] / 2] * 30)
    assert together == pytest.approx([value / 4 for value in bm25])


def test_words_are_all_that_there_is_where_the_language_is_not_understood() -> None:
    assert column("bm25", "lock lease holder renewal", among_others("lock"), frozenset({"ru"}))[0] == 1.0


def test_a_long_question_says_more_words_than_a_page_holds() -> None:
    words = [f"word{number}" for number in range(24)]
    found = among_others(" ".join(words[:6]))
    assert column("bm25", " ".join(words), found)[0] == 1.0
    assert column("bm25", " ".join(words[5:13]), found)[0] < 0.5


def test_rows_of_a_file_speak_for_each_other() -> None:
    found = retrieved(
        row(1, path="a.py", bm25=4.0, distance=0.5, content="def lock(): ..."),
        row(2, path="a.py", bm25=2.0, distance=0.2, content="def holder(): ..."),
        row(3, path="a.py", bm25=1.0, distance=0.6, layer=Layer.C1_SYMBOL_CATALOG),
        row(4, path="b.py", bm25=4.0, distance=0.9),
    )
    assert column("file_bm25", "lock holder", found) == pytest.approx([1.75 / 4] * 3 + [0.25])
    assert column("file_text_dense", "lock holder", found) == pytest.approx([1.0] * 3 + [0.125])
    assert column("file_entry_dense", "lock holder", found) == pytest.approx([0.5] * 3 + [0.0])
    assert column("file_words", "lock holder", found) == pytest.approx([1.0] * 3 + [0.0])


@pytest.mark.parametrize(
    ("bm25", "clear"),
    [
        pytest.param([9.0, 9.0, 9.0], 0.0, id="all alike"),
        pytest.param([9.0, *[0.9] * 9], 0.81, id="one stands out"),
        pytest.param([0.0, 0.0], 0.0, id="no word found"),
    ],
)
def test_a_clear_list_counts_by_how_far_its_best_row_stands_out(bm25: list[float], clear: float) -> None:
    found = retrieved(*(row(number, bm25=value) for number, value in enumerate(bm25)))
    greatest = max(bm25) or 1.0
    assert column("bm25_clear", "run", found) == pytest.approx([clear * value / greatest for value in bm25])


def test_prose_gives_way_where_the_question_says_what_code_does() -> None:
    found = retrieved(row(1, path="docs/upload.rst"), row(2, path="src/upload.rs", layer=Layer.D3_SECTION_INDEX))
    assert column("prose_for_code", "Return the open file.", found) == [1.0, 0.0]
    assert column("prose_for_code", "How do I open a file?", found) == [0.0, 0.0]


def test_identifiers_must_stand_letter_for_letter() -> None:
    found = retrieved(row(1, content="x = blob_sha\n"), row(2, content="x = blob + sha\n"))
    assert column("identifiers", "where is blob_sha made", found) == [1.0, 0.0]


def test_the_files_name_counts_by_the_rare_words_in_it() -> None:
    found = retrieved(*(row(n, path=f"retry/{name}.py") for n, name in enumerate(["fusion", "retry", "lock"], start=1)))
    in_names = column("file_name", "fusion of ranks", found)
    assert in_names[0] > 0
    assert in_names[1:] == [0.0, 0.0]


def test_a_symbols_name_fits_by_the_words_that_it_shares_with_the_question() -> None:
    entry = {"layer": Layer.C1_SYMBOL_CATALOG, "metadata": {"symbol_kind": "method"}}
    found = retrieved(
        row(1, title="Context.push", **entry),
        row(2, title="Context.pushBlobLock", **entry),
        row(3, title="a, b", metadata={"symbols": ["Context.pop", "Context.push"]}),
        row(4, title="Push", path="push.md", layer=Layer.D3_SECTION_INDEX),
    )
    exact, longer, one_of_two, prose = column("symbol_name", "Push this so that it is active.", found)
    assert exact == one_of_two > longer > 0
    assert prose == 0
    assert column("symbol_name", "where is push_blob_lock made", found)[1] > 0


@pytest.mark.parametrize("text", ["how to push a context", "Fix push, which fails", "the context stack"])
def test_names_say_less_where_a_question_neither_describes_nor_names_code(text: str) -> None:
    found = retrieved(row(1, title="push", metadata={"symbols": ["push"]}), row(2))
    assert column("symbol_name", text, found) == [0.0, 0.0]


def test_few_plain_words_look_for_what_code_does() -> None:
    found = retrieved(row(1, distance=0.2), row(2, path="guide.md", layer=Layer.D3_SECTION_INDEX, distance=0.2))
    assert column("dense_for_code", "sort a list by value", found) == pytest.approx([1.0, 0.0])
    assert column("dense_for_code", "sort a list by sort_key()", found) == [0.0, 0.0]
    assert column("dense_for_code", "sort a list by value " * 10, found) == [0.0, 0.0]


def test_the_parts_of_a_score_add_up() -> None:
    asked = Explanation(parts=(), terms=None, allowed_by="a rule")
    found = retrieved(
        row(1, distance=0.4, dense_rank=1, bm25=3.0, explanation=asked),
        row(2, bm25=6.0, layer=Layer.C1_SYMBOL_CATALOG, explanation=asked),
        row(3, path="run.py", explanation=asked),
        row(4, path="run.py", content="", span=Span(start=9, end=12), explanation=asked),
    )
    candidates = FeatureReranker(languages=ENGLISH).rerank(question("how to run it"), found).candidates
    payers = [
        ranked.chunk_id
        for ranked in candidates
        if ranked.explanation and ranked.explanation.parts[-1].name == "rows_above"
    ]
    assert payers == [4]
    for ranked in candidates:
        assert ranked.explanation is not None
        assert ranked.explanation.parts
        assert ranked.explanation.allowed_by == "a rule"
        assert sum(part.part for part in ranked.explanation.parts) == pytest.approx(ranked.score)
        assert all(part.part == pytest.approx((part.value or 0) * part.weight) for part in ranked.explanation.parts)


def test_rows_that_nobody_asked_to_explain_are_not_explained() -> None:
    ranked = FeatureReranker(languages=ENGLISH).rerank(question("run"), retrieved(row(1), row(2)))
    assert [candidate.explanation for candidate in ranked.candidates] == [None, None]


def test_the_best_row_comes_first_and_ties_keep_their_order() -> None:
    found = retrieved(row(1), row(2), row(3, distance=0.1, dense_rank=1, bm25=5.0))
    ranked = FeatureReranker(languages=ENGLISH).rerank(question("how to run"), found)
    assert [candidate.chunk_id for candidate in ranked.candidates] == [3, 1, 2]


def test_what_a_caller_prefers_stays_in_front() -> None:
    found = retrieved(
        row(1, prefer_bonus=1, test_penalty=1), row(2, prefer_bonus=1), row(3, distance=0.0, dense_rank=1, bm25=9.0)
    )
    ranked = FeatureReranker(languages=ENGLISH).rerank(question("how to run"), found)
    assert [candidate.chunk_id for candidate in ranked.candidates] == [2, 1, 3]


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_rank_is_left_alone(count: int) -> None:
    found = retrieved(*[row(1)][:count])
    assert FeatureReranker(languages=ENGLISH).rerank(question("x"), found) == found


def test_rows_without_scores_are_ranked_too() -> None:
    found = retrieved(row(1, distance=None, bm25=None), row(2, distance=None, bm25=4.0))
    fields = feature_rows("run", found, ENGLISH)
    assert np.isfinite(fields).all()
    assert FeatureReranker(languages=ENGLISH).rerank(question("run"), found).candidates[0].chunk_id == 2


def test_the_shipped_weights_are_of_these_fields_and_say_where_they_come_from() -> None:
    assert set(shipped_weights()) == set(FEATURES)
