"""The search statement finds what the plain Python twin finds: rows, ranks, scores and order."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from strata.errors import SessionNotFound
from strata.model.access import Identity
from strata.model.asking import Candidate, Filter, Names
from strata.model.corpus import Layer
from strata.ports.search import SearchRequest
from strata.retrieval.fusion import reciprocal_rank_fusion
from strata.retrieval.statements import fusion, lexical
from tests.support import chunk_search
from tests.support.factories import identity
from tests.support.search_rows import SearchRows, TextFile
from tests.support.term_blocks import make_small_blocks

WORDS = (
    *("webhook", "secret", "reset", "index", "commit", "lease", "fence", "retry", "backoff", "queue", "job", "worker"),
    *("плагин", "плагинов", "плагины", "настройка", "HTTPServerError", "blob_sha", "ORA-00942", "E1101", "v4.2.1"),
    *("4.2", "src/app.py", "token", "limit", "the", "a", "of"),
)
FOLDERS = ("src/", "src/app/", "src/application/", "tests/", "docs/", "100%/", "nfs_tools/", "nfsXtools/")
LAYERS = (
    *(Layer.D1_DOCUMENT_CATALOG, Layer.D3_SECTION_INDEX, Layer.C0_SOURCE_CHUNKS, Layer.C1_SYMBOL_CATALOG),
    *(Layer.D2_FACT_INDEX, Layer.C4_SEMANTIC_ROLES),  # without vectors
)
PEOPLE = (
    identity("ann"),
    identity("bob", groups=["red"]),
    identity("cat", groups=["red", "blue"]),
    identity("dan", groups=["green"]),
    identity("ann", tenant="other", groups=["red"]),
)
ACLS = (None, None, None, ("group:red",), ("group:blue", "user:dan"), ("user:ann",), ())


def random_text(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 40)))


def random_question(chance: random.Random) -> str:
    """Often with a name (`WORDS` holds some), now and then with a phrase in quotes, or with a title above it."""
    title = f"{random_text(chance)}\n" if chance.random() < 0.3 else ""
    quoted = f' "{chance.choice(WORDS)} {chance.choice(WORDS)}"' if chance.random() < 0.3 else ""
    named = chance.choice(["", "", " f1.py", " src/app.py", " f12.py f3.py"])
    return title + random_text(chance) + quoted + named


def random_file(chance: random.Random, number: int) -> TextFile:
    return TextFile(
        path=f"{chance.choice(FOLDERS)}{chance.choice(['', 'test_'])}f{number}.py",
        texts=[random_text(chance) for _ in range(chance.randint(1, 4))],
        layer=chance.choice(LAYERS),
        acl=chance.choice(ACLS),
        more=[(chance.choice(LAYERS), random_text(chance)) for _ in range(chance.randint(0, 2))],
    )


def random_filter(chance: random.Random) -> Filter:
    def some(*values: str) -> tuple[str, ...]:
        return tuple(chance.sample(values, chance.choice([0, 0, 1, 2])))

    return Filter(
        layers=tuple(chance.sample(LAYERS, chance.choice([0, 0, 1, 2, 3]))),
        path_prefixes=some("src/", "src/app", "100%/", "nfs_tools/", "tests/test_"),
        exclude_path_prefixes=some("src/app/", "docs/", "nfs_"),
        exclude_like_patterns=some("%test\\_%", "_ocs/%", "100\\%/%"),
        prefer_path_prefixes=some("docs/", "src/app"),
        prefer_like_patterns=some("%f1%", "t____/%"),
        prefer_non_tests=chance.random() < 0.3,
    )


@pytest.fixture(
    autouse=True,
    params=[
        (2_000, 0.7, 0, 99.0, False),
        (40, 0.0, 0, 99.0, False),
        (1, 0.3, 0, 99.0, False),
        (1, 0.3, 0, 0.0, False),
        (1, 0.7, 2_000, 99.0, False),
        (1, 0.7, 0, 0.0, True),
        (20, 0.7, 0, 99.0, True),
    ],
    ids="first draw of {0[0]} rows, few are {0[2]}, at most {0[3]} postings a row, blocks: {0[4]}".format,
)
def first_draw(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first draw looks up every term of the question, some, or one; or every row is scored, after it or at once.

    Files give way to others from the start, or later. With blocks most words have them, and some rows no place there.
    """
    first_draw_rows, first_share, small_rows, most_postings, blocks = request.param
    if blocks:
        make_small_blocks(monkeypatch)
    monkeypatch.setattr(lexical, "MOST_POSTINGS", most_postings)
    monkeypatch.setattr(lexical, "SMALL_ROWS", small_rows)
    monkeypatch.setattr(lexical, "FIRST_DRAW_ROWS", first_draw_rows)
    monkeypatch.setattr(fusion, "FIRST_SHARE", first_share)
    monkeypatch.setattr(chunk_search, "FIRST_SHARE", first_share)


@pytest.fixture
def filled(rows: SearchRows) -> SearchRows:
    """Two sessions of Ann's that some others read; files were added, rewritten, restricted and deleted."""
    chance = random.Random(20_26)
    for name in ("one", "two"):
        rows.session(name, readers=["group:red", "user:dan"])
        files = [random_file(chance, number) for number in range(40)]
        rows.commit(name, files)
        changed = [replace(file, texts=[random_text(chance)], more=()) for file in files[:5]]
        rights = [replace(file, acl=("group:blue",)) for file in files[10:14]]
        rows.commit(
            name, [*changed, random_file(chance, 99)], deletes=[file.path for file in files[5:9]], rights=rights
        )
    return rows


def test_rows_are_those_of_the_twin_for_any_caller_filter_and_question(filled: SearchRows) -> None:
    chance = random.Random(7)
    readable = [person for person in PEOPLE if person.tenant == "acme"]
    found = 0
    for _ in range(150):
        request = filled.request(
            chance.choice(["one", "two"]),
            random_question(chance),
            identity=chance.choice(readable),
            filter=random_filter(chance),
            limit=chance.choice([1, 3, 10, 50]),
            depth=chance.choice([1, 5, 50]),
            dense=chance.random() < 0.7,
        )
        request = replace(
            request,
            rows=chance.choice([0, 0, 20]),
            dense_weight=chance.choice([1.0, 0.3]),
            lexical_weight=chance.choice([1.0, 0.0]),
            exact_weight=chance.choice([1.0, 0.5, 0.0]),
        )
        actual = filled.search.search(request)
        expected = filled.twin.search(request)
        assert (actual.generation, actual.embedding_model) == (expected.generation, expected.embedding_model)
        assert_same(actual.candidates, expected.candidates)
        assert actual.best_distance == about(expected.best_distance)
        assert actual.greatest_bm25 == about(expected.greatest_bm25)
        assert_only_allowed(filled, request, actual.candidates)
        found += len(actual.candidates)
    assert found > 500


def assert_same(actual: tuple[Candidate, ...], expected: tuple[Candidate, ...]) -> None:
    """Equal but for the last digits of floats: distances, BM25."""
    blank = {"distance": None, "bm25": None}
    assert [replace(row, **blank) for row in actual] == [replace(row, **blank) for row in expected]
    for one, other in zip(actual, expected, strict=True):
        assert one.bm25 == about(other.bm25)
        assert one.distance == about(other.distance)


def about(expected: float | None) -> object:
    """Equal up to float32, where there is a number."""
    return expected if expected is None else pytest.approx(expected, rel=1e-5, abs=1e-5)


def assert_only_allowed(filled: SearchRows, request: SearchRequest, candidates: tuple[Candidate, ...]) -> None:
    question = request.question
    allowed = {row.chunk_id for row in filled.twin.allowed(question.session_id, question.identity, question.filter)}
    assert {row.chunk_id for row in candidates} <= allowed
    if request.embedding is not None:
        assert len(candidates) == min(max(question.limit, request.rows), len(allowed))


def test_bm25_equals_the_reference_scorer_with_ties_by_id(filled: SearchRows) -> None:
    chance = random.Random(3)
    everything = identity("ann", groups=["red", "blue", "green"])
    for _ in range(40):
        layers = tuple(chance.sample(LAYERS, chance.choice([0, 1, 2])))
        request = filled.request(
            "one",
            random_text(chance),
            identity=everything,
            filter=Filter(layers=layers),
            limit=500,
            depth=500,
            dense=False,
        )
        request = replace(request, names=Names())
        actual = [(row.chunk_id, row.bm25) for row in filled.search.search(request).candidates]
        readable = {row.chunk_id for row in filled.twin.allowed("one", everything, Filter(layers=layers))}
        expected = [item for item in filled.twin.bm25(request) if item[0] in readable]
        assert dict(actual) == pytest.approx(dict(expected), rel=1e-5)
        assert actual == sorted(actual, key=lambda item: (-(item[1] or 0), item[0]))


def test_scores_are_the_fusion_of_the_ranks(filled: SearchRows) -> None:
    request = filled.request("one", "webhook secret плагины", filter=Filter(layers=LAYERS[:4]), limit=500)
    candidates = filled.search.search(request).candidates
    dense = {row.dense_rank: row.chunk_id for row in candidates if row.dense_rank}
    lexical = {row.lexical_rank: row.chunk_id for row in candidates if row.lexical_rank}
    assert sorted(dense) == list(range(1, len(candidates) + 1))
    assert sorted(lexical) == list(range(1, len(lexical) + 1))
    assert 0 < len(lexical) < len(dense)
    fused = reciprocal_rank_fusion(
        [[dense[rank] for rank in sorted(dense)], [lexical[rank] for rank in sorted(lexical)]]
    )
    assert [(row.chunk_id, row.score) for row in candidates] == fused


@pytest.mark.parametrize("preferred", [(), ("b/",)], ids=["no preference", "a preference"])
def test_rows_without_a_vector_and_without_a_word_come_last_of_their_kind(
    rows: SearchRows, preferred: tuple[str, ...]
) -> None:
    rows.session("one")
    texts = ["the lease lasts", "nothing of it", "nor this"]
    facts = [
        TextFile(f"{folder}/f{number}.md", [text], layer=Layer.D2_FACT_INDEX)
        for folder in "ab"
        for number, text in enumerate(texts)
    ]
    rows.commit("one", [*facts, TextFile("a/code.py", ["no word"], layer=Layer.C0_SOURCE_CHUNKS)])
    filter = Filter(layers=(Layer.D2_FACT_INDEX,), prefer_path_prefixes=preferred)
    for limit in (1, 4, 6, 50):
        request = rows.request("one", "lease", filter=filter, limit=limit)
        found = rows.search.search(request).candidates
        assert len(found) == min(limit, 6)
        assert_same(found, rows.twin.search(request).candidates)
    kinds = [(row.path[0], row.lexical_rank is not None) for row in found]
    ranked_first = [("b", True), ("b", False), ("b", False), ("a", True), ("a", False), ("a", False)]
    assert kinds == ranked_first if preferred else kinds[:2] == [("a", True), ("b", True)]
    assert {row.score for row in found if row.lexical_rank is None} == {0.0}
    by_words_alone = rows.search.search(rows.request("one", "lease", filter=filter, limit=50, dense=False))
    assert len(by_words_alone.candidates) == 2


def test_equal_chunks_come_in_the_order_of_their_ids(rows: SearchRows) -> None:
    rows.session("one")
    rows.commit("one", [TextFile(f"f{number}.md", ["the same words"]) for number in (3, 1, 2)])
    candidates = rows.search.search(rows.request("one", "same words")).candidates
    ids = [row.chunk_id for row in candidates]
    assert ids == sorted(ids)
    assert [row.dense_rank for row in candidates] == [row.lexical_rank for row in candidates] == [1, 2, 3]


def test_caller_of_another_tenant_with_the_same_name_finds_no_session(filled: SearchRows) -> None:
    stranger: Identity = PEOPLE[-1]
    with pytest.raises(SessionNotFound):
        filled.search.search(filled.request("one", "webhook", identity=stranger))
