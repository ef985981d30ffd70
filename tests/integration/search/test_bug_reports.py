"""Reports that touch search, each with its own input, through the real commit, Postgres and the retriever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import psycopg
import pytest

from strata.errors import EmbeddingModelMismatch, InvalidQuery, SessionNotFound
from strata.model.access import Identity
from strata.model.asking import Candidate, Filter, Question
from strata.model.corpus import Layer, Vector
from strata.retrieval.filters import checked_filter
from strata.retrieval.retrieve import Retriever
from tests.support.asking import EMBEDDER
from tests.support.factories import identity, unit_vector
from tests.support.search_rows import SearchRows, TextFile

ANN, BOB = identity("ann"), identity("bob")


@pytest.fixture
def session(rows: SearchRows) -> SearchRows:
    rows.session("one", ANN, dimension=EMBEDDER.dimension, embedding_model=EMBEDDER.model_id)
    return rows


def text_file(path: str, *texts: str, acl: tuple[str, ...] | None = None) -> TextFile:
    return TextFile(path, texts, acl=acl, embeddings=[EMBEDDER.embed_query(text) for text in texts])


def found(
    rows: SearchRows, text: str, *, filter: Filter | None = None, limit: int = 10, caller: Identity = ANN
) -> tuple[Candidate, ...]:
    retriever = Retriever(search=rows.search, embedder=EMBEDDER, depth=50)
    asked = Question(text=text, session_id="one", identity=caller, filter=filter or Filter(), limit=limit)
    return retriever.retrieve(asked).candidates


def by_words(rows: SearchRows, text: str) -> list[str]:
    """Paths of the lexical list alone, best first."""
    request = rows.request("one", text, identity=ANN, dense=False, limit=50)
    return [row.path for row in rows.search.search(request).candidates]


def test_report_34_neither_a_large_neighbour_nor_a_narrow_right_costs_a_row(rows: SearchRows) -> None:
    """50,000 rows that the search of the other session, or all but one in a hundred readers, must not see.

    The large session's vectors lie in cells, and both questions are nearest to rows that their caller can't find.
    """
    chance = np.random.default_rng(34)

    def near(centre: int, count: int) -> list[Vector]:
        made = 0.1 * chance.normal(size=(count, 16))
        made[:, centre] += 1.0
        return list((made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32))

    files = [
        TextFile(f"f{n}.md", [f"text {n} {i}" for i in range(100)], acl=(reader,), embeddings=near(axis, 100))
        for n in range(500)
        for reader, axis in [("group:few", 1) if n % 100 == 0 else ("group:all", 0)]
    ]
    rows.session("large", ANN, dimension=16, readers=["group:few"])
    rows.commit("large", files)
    with psycopg.connect(rows.database.owner_url) as connection:
        assert connection.execute("SELECT max(nearest_rows) FROM rag_indexes").fetchone() == (50_000,)
    rows.session("small", ANN, dimension=16)
    rows.commit("small", [TextFile("b.md", [f"text {n}" for n in range(30)], embeddings=near(2, 30))])
    few = identity("bob", groups=["few"])
    for session_id, caller in (("small", ANN), ("large", few)):
        request = replace(rows.request(session_id, "", identity=caller, embedding=near(0, 1)[0]), rows=0)
        expected = [row.chunk_id for row in rows.twin.search(request).candidates]
        assert [row.chunk_id for row in rows.search.search(request).candidates] == expected
        assert len(expected) == 10


def test_report_36_vectors_of_3072_dimensions(rows: SearchRows) -> None:
    rows.session("one", ANN, dimension=3_072)
    rows.commit("one", [TextFile(f"f{n}.md", [f"text {n}"]) for n in range(20)])
    request = rows.request("one", "text 3", identity=ANN, embedding=unit_vector("text 3", 3_072))
    assert rows.search.search(request).candidates[0].path == "f3.md"


def test_report_37_another_model_is_refused_and_the_session_still_answers_with_its_own(session: SearchRows) -> None:
    session.commit("one", [text_file("a.md", "text")])
    other = session.request("one", "text", identity=ANN, embedding=unit_vector("text", 1_536))
    with pytest.raises(EmbeddingModelMismatch):
        session.search.search(other)
    assert [row.path for row in found(session, "text")] == ["a.md"]


def test_report_39_signs_are_no_syntax(session: SearchRows) -> None:
    session.commit("one", [text_file("a.md", "your password and the policies"), text_file("b.md", "other things")])
    plain = found(session, "What s your password policies L Content")
    for noisy in (
        "What's your password & policies | ! ( ) : * <-> \\ ‘L’Content’ ＇",
        "'; DROP TABLE rag_chunks; -- password policies",
    ):
        assert found(session, noisy)[0].path == plain[0].path == "a.md"


def test_report_41_filler_does_not_empty_the_lexical_list(session: SearchRows) -> None:
    session.commit("one", [text_file("a.md", "reset the webhook secret"), text_file("b.md", "something else")])
    assert by_words(session, "hi, could you please tell me how to reset the webhook secret quickly")[0] == "a.md"


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("RetrievalStatementBuilder.build_retrieve", "a.py"),
        ("retrieval statement builder", "a.py"),
        ("build retrieve", "a.py"),
        ("blob_sha", "b.py"),
        ("blob sha", "b.py"),
        ("Foo::bar", "c.py"),
        ("HTTPServerError", "d.py"),
        ("http server error", "d.py"),
    ],
)
def test_report_43_names_are_found_whole_and_by_their_words(session: SearchRows, question: str, path: str) -> None:
    session.commit(
        "one",
        [
            text_file("a.py", "RetrievalStatementBuilder.build_retrieve makes it"),
            text_file("b.py", "the blob_sha names it"),
            text_file("c.py", "call Foo::bar twice"),
            text_file("d.py", "raise HTTPServerError at once"),
            text_file("e.py", "a statement about a server that retrieves a blob"),
        ],
    )
    assert by_words(session, question)[0] == path
    if any(sign in question for sign in "._:"):  # the whole name
        assert found(session, question)[0].path == path


CODES = ("99933227-08bb-46f5-960c-6a2ec3ddaab4", "0xC0190034", "ORA-00942", "E1101", "HTTP 429")


@pytest.mark.parametrize("code", CODES)
def test_report_44_the_exact_code_comes_before_its_twins(session: SearchRows, code: str) -> None:
    twins = [code[:-1] + sign for sign in "0123456789" if sign != code[-1]]
    files = [text_file(f"twin{n}.md", f"error {twin} happened") for n, twin in enumerate(twins)]
    files += [text_file(f"noise{n}.md", f"document {n} of a thousand") for n in range(200)]
    session.commit("one", [*files, text_file("exact.md", f"error {code} happened")])
    assert by_words(session, code)[0] == "exact.md"
    assert found(session, code)[0].path == "exact.md"


@pytest.mark.parametrize("question", ["плагины", "рекомендации плагинов", "ПЛАГИНАМИ"])
def test_report_45_russian_forms_are_found_by_words(session: SearchRows, question: str) -> None:
    session.commit("one", [text_file("a.md", "этот плагин из плагинов к плагинам"), text_file("b.md", "совсем другое")])
    assert by_words(session, question) == ["a.md"]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (checked_filter(path_prefixes=["nfs_tools/"]), {"nfs_tools/a.py"}),
        (checked_filter(path_prefixes=["100%/"]), {"100%/c.md"}),
        (checked_filter(exclude_path_prefixes=["test_", "nfs_"]), {"nfsXtools/b.py", "100%/c.md", "testX/e.md"}),
    ],
)  # fmt: skip
def test_report_47_prefixes_are_literal(session: SearchRows, filter: Filter, expected: set[str]) -> None:
    paths = ["nfs_tools/a.py", "nfsXtools/b.py", "100%/c.md", "test_d.md", "testX/e.md"]
    session.commit("one", [text_file(path, "the same words") for path in paths])
    assert {row.path for row in found(session, "same words", filter=filter)} == expected


@pytest.mark.parametrize("text", ["", "   ", "\n", "!!!", "🙂", "\u200b"])
def test_report_48_a_question_without_a_word_is_refused(session: SearchRows, text: str) -> None:
    with pytest.raises(InvalidQuery):
        found(session, text)


def test_report_50_a_scope_of_ones_choice_opens_nothing(session: SearchRows) -> None:
    session.commit("one", [text_file("private/a.md", "secret webhook")])
    filter = checked_filter(layers=["D3"], path_prefixes=["private/"])
    with pytest.raises(SessionNotFound):
        found(session, "secret webhook", filter=filter, caller=BOB)
    retriever = Retriever(search=session.search, embedder=EMBEDDER, depth=50)
    with pytest.raises(SessionNotFound):
        retriever.retrieve_exact_files("one", BOB, ["private/a.md"])
    with pytest.raises(SessionNotFound):
        retriever.retrieve_lexical_code(Question(text="secret", session_id="one", identity=BOB, filter=filter))


def routes(rows: SearchRows, word: str, path: str) -> dict[str, Sequence[str]]:
    dense = rows.request("one", "?", identity=ANN, embedding=EMBEDDER.embed_query(word))
    return {
        "dense": [row.path for row in rows.search.search(dense).candidates],
        "lexical": by_words(rows, word),
        "whole": [row.path for row in found(rows, word)],
        "files": [row.path for row in rows.search.files("one", ANN, [path], limit=10).candidates],
    }


def test_report_51_a_deleted_file_is_gone_from_all_routes_at_once(session: SearchRows) -> None:
    session.commit("one", [text_file(f"{name}.md", f"only {name}word here") for name in ("a", "b", "c")])
    assert all("b.md" in paths for paths in routes(session, "bword", "b.md").values())
    session.commit("one", deletes=["b.md"])
    assert not any("b.md" in paths for paths in routes(session, "bword", "b.md").values())


def test_report_53_the_twin_of_a_deleted_file_stays_under_its_own_path(session: SearchRows) -> None:
    session.commit(
        "one", [text_file("pkg1/LICENSE.md", "license words"), text_file("pkg2/LICENSE.md", "license words")]
    )
    (shown,) = found(session, "license words", limit=1)
    assert [also.path for also in shown.also] == [({"pkg1/LICENSE.md", "pkg2/LICENSE.md"} - {shown.path}).pop()]
    session.commit("one", deletes=["pkg1/LICENSE.md"])
    for paths in routes(session, "license words", "pkg2/LICENSE.md").values():
        assert list(paths) == ["pkg2/LICENSE.md"]


def test_layers_are_found_beside_each_other(session: SearchRows) -> None:
    """A file's chunk and the entry of its function are one result with two layers."""
    vector = EMBEDDER.embed_query("def lease(): return 60")
    session.commit(
        "one",
        [
            TextFile(
                "a.py", ["def lease(): return 60"], layer=Layer.C0_SOURCE_CHUNKS, embeddings=[vector, vector],
                more=[(Layer.C1_SYMBOL_CATALOG, "function lease")],
            ),
            text_file("b.md", "something about a lease"),
        ],
    )  # fmt: skip
    shown = found(session, "lease", limit=2)
    assert [row.path for row in shown] == ["a.py", "b.md"]
    assert len(shown[0].also) == 1
