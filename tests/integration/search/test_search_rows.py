"""What the search returns in the cases that users meet: filters, deletions, models, sizes, failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from strata.errors import EmbeddingModelMismatch, SessionNotFound, StoreUnavailable
from strata.model.asking import Filter
from strata.model.corpus import EMBEDDED_LAYERS, Layer
from strata.ports.search import SearchRequest
from strata.retrieval.filters import checked_filter
from strata.retrieval.statements import exact, lexical
from strata.retrieval.statements import search as searches
from strata.retrieval.statements.files import index_statement
from strata.retrieval.statements.rows import Statement
from strata.retrieval.statements.search import search_statement
from strata.storage.postgres import search as adapter
from strata.storage.postgres.search import PostgresSearch
from tests.support.factories import identity, unit_vector
from tests.support.postgres import TestDatabase
from tests.support.search_rows import SearchRows, TextFile

PATHS = ("nfs_tools/a.py", "nfsXtools/b.py", "nfs_tools2/c.py", "100%/c.md", "1000/d.md", "test_x.py", "testAx.py")


@pytest.fixture(scope="module")
def paths(module_postgres: TestDatabase) -> Iterator[SearchRows]:
    """One session with a file at each of the paths; the tests that share it only read."""
    rows = SearchRows(module_postgres)
    rows.session("one")
    rows.commit("one", [TextFile(path, ["the same words"]) for path in PATHS])
    yield rows
    rows.close()


def found(rows: SearchRows, filter: Filter, **asked: Any) -> list[str]:
    return [
        row.path for row in rows.search.search(rows.request("one", "same words", filter=filter, **asked)).candidates
    ]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        pytest.param({"path_prefixes": ["nfs_tools/"]}, {"nfs_tools/a.py"}, id="an underscore is itself"),
        pytest.param({"path_prefixes": ["100%/"]}, {"100%/c.md"}, id="a per cent sign is itself"),
        pytest.param({"path_prefixes": ["nfs\\_tools/"]}, set(), id="a backslash is itself"),
        pytest.param({"path_prefixes": ["nfs_tools"]}, {"nfs_tools/a.py", "nfs_tools2/c.py"}, id="no border implied"),
        pytest.param({"path_prefixes": ["NFS_tools/"]}, set(), id="case counts"),
        pytest.param({"path_prefixes": ["100%/", "1000/"]}, {"100%/c.md", "1000/d.md"}, id="values are joined by OR"),
        pytest.param({"exclude_path_prefixes": ["test_"]}, set(PATHS) - {"test_x.py"}, id="exclusion is literal"),
        pytest.param({"exclude_like_patterns": ["testA"]}, set(PATHS), id="a pattern covers the whole path"),
        pytest.param({"exclude_like_patterns": ["test_%"]}, set(PATHS) - {"test_x.py", "testAx.py"}, id="a wildcard"),
        pytest.param({"exclude_like_patterns": ["test\\_%"]}, set(PATHS) - {"test_x.py"}, id="an escaped wildcard"),
        pytest.param({"path_prefixes": ["100%/"], "exclude_path_prefixes": ["100"]}, set(), id="exclusion wins"),
        pytest.param({}, set(PATHS), id="an empty filter restricts nothing"),
        pytest.param({"layers": ["C0"]}, set(), id="a layer without rows"),
        pytest.param({"layers": ["d3", "C0_SOURCE_CHUNKS"]}, set(PATHS), id="layers are joined by OR"),
    ],
)
@pytest.mark.parametrize("dense", [True, False], ids=["dense and lexical", "lexical alone"])
def test_filter_keeps(paths: SearchRows, filter: dict[str, Any], expected: set[str], dense: bool) -> None:
    assert set(found(paths, checked_filter(**filter), dense=dense)) == expected


def test_preferred_paths_come_first_and_tests_last_whatever_their_score(rows: SearchRows) -> None:
    rows.session("one")
    files = [
        TextFile("tests/test_reset.py", ["reset the secret"]),
        TextFile("src/reset.py", ["reset something"]),
        TextFile("docs/other.md", ["nothing of the kind"]),
        TextFile("docs/tests/t.md", ["neither here"]),
    ]
    rows.commit("one", files)
    asked = rows.request("one", "reset the secret", embedding=unit_vector("reset the secret"))

    def order(**preferences: Any) -> list[tuple[str, int, int]]:
        request = replace(asked, question=replace(asked.question, filter=checked_filter(**preferences)))
        candidates = rows.search.search(request).candidates
        return [(row.path, row.prefer_bonus, row.test_penalty) for row in candidates]

    assert order()[0] == ("tests/test_reset.py", 0, 0)
    preferred = order(prefer_path_prefixes=["docs/"], prefer_non_tests=True)
    assert preferred == [
        ("docs/other.md", 1, 0), ("docs/tests/t.md", 1, 1), ("src/reset.py", 0, 0), ("tests/test_reset.py", 0, 1),
    ]  # fmt: skip
    assert order(prefer_like_patterns=["src/%"])[0] == ("src/reset.py", 1, 0)


def test_preferred_row_far_down_both_lists_still_comes_first(rows: SearchRows) -> None:
    rows.session("one")
    rows.commit("one", [TextFile(f"a/{number}.md", ["reset the secret"]) for number in range(20)])
    rows.commit("one", [TextFile("z/last.md", ["unlike"])])
    request = rows.request("one", "reset the secret", filter=Filter(prefer_path_prefixes=("z/",)), limit=3, depth=3)
    assert rows.search.search(request).candidates[0].path == "z/last.md"


def test_deleted_file_is_gone_from_every_route_and_its_twin_stays(rows: SearchRows) -> None:
    rows.session("one")
    licence = "Permission granted xylophone"
    rows.commit("one", [TextFile(f"{package}/LICENSE.md", [licence]) for package in ("pkg1", "pkg2")])
    gone = next(row.chunk_id for row in rows.twin.chunks["one"] if row.chunk.path == "pkg1/LICENSE.md")
    rows.commit("one", deletes=["pkg1/LICENSE.md"])
    me = identity()
    assert found(rows, Filter()) == ["pkg2/LICENSE.md"]
    lexical = rows.search.search(rows.request("one", "xylophone", dense=False)).candidates
    assert [(row.path, row.content) for row in lexical] == [("pkg2/LICENSE.md", licence)]
    both = ["pkg1/LICENSE.md", "pkg2/LICENSE.md"]
    assert [row.path for row in rows.search.files("one", me, both, limit=10).candidates] == ["pkg2/LICENSE.md"]
    assert rows.search.sources("one", me, [gone, lexical[0].chunk_id]) == {lexical[0].chunk_id: licence}
    assert rows.search.generation("one", me) == (2, "hashed-8")


def test_exact_files_come_in_the_order_asked_by_layer_and_place(rows: SearchRows) -> None:
    rows.session("one")
    rows.commit(
        "one",
        [
            TextFile("b.py", ["b0", "b1"], layer=Layer.C0_SOURCE_CHUNKS, more=[(Layer.C1_SYMBOL_CATALOG, "symbol")]),
            TextFile("a.md", ["a0"]),
        ],
    )
    me = identity()
    files = rows.search.files("one", me, ["missing.md", "b.py", "a.md"], limit=10)
    assert [row.content for row in files.candidates] == ["b0", "b1", "symbol", "a0"]
    assert {(row.score, row.dense_rank, row.bm25) for row in files.candidates} == {(0.0, None, None)}
    only = rows.search.files("one", me, ["b.py"], layers=[Layer.C1_SYMBOL_CATALOG], limit=10)
    assert [row.content for row in only.candidates] == ["symbol"]
    assert len(rows.search.files("one", me, ["b.py"], limit=1).candidates) == 1
    assert rows.search.files("one", me, ["missing.md"], limit=10).candidates == ()
    with pytest.raises(SessionNotFound):
        rows.search.files("none", me, ["b.py"], limit=10)


def test_empty_session_answers_with_no_rows(rows: SearchRows) -> None:
    rows.session("one")
    retrieved = rows.search.search(rows.request("one", "anything"))
    assert (retrieved.candidates, retrieved.generation, retrieved.embedding_model) == ((), 0, "hashed-8")


def test_a_question_without_known_words_has_a_dense_list_alone(paths: SearchRows) -> None:
    candidates = paths.search.search(paths.request("one", "zzzz yyyy", limit=50)).candidates
    assert [row.dense_rank for row in candidates] == list(range(1, len(PATHS) + 1))
    assert {row.lexical_rank for row in candidates} == {None}
    assert paths.search.search(paths.request("one", "zzzz yyyy", dense=False)).candidates == ()


@pytest.mark.parametrize("layer", sorted(set(Layer) - EMBEDDED_LAYERS))
def test_a_layer_that_is_not_embedded_is_found_by_words_and_names(rows: SearchRows, layer: Layer) -> None:
    """Alone and beside one that is; a file that few may read stays theirs, and they are told no statistics either."""
    rows.session("one", readers=["group:all"])
    more = [(layer, "zebra runs in BlobStore"), (Layer.D3_SECTION_INDEX, "zebra zebra BlobStore")]
    rows.commit("one", [TextFile("a.md", [], more=more), TextFile("b.md", ["zebra"], layer=layer, acl=("user:eve",))])

    def found(*layers: Layer) -> list[tuple[Layer, str, int | None, bool, int | None]]:
        request = rows.request("one", "zebra `BlobStore`", filter=Filter(layers=layers))
        request = replace(request, question=replace(request.question, explain=True))
        candidates = rows.search.search(request).candidates
        assert [row.explanation and row.explanation.terms for row in candidates] == [None] * len(candidates)
        assert all(row.explanation for row in candidates)
        return [(row.layer, row.path, row.dense_rank, row.distance is None, row.exact_rank) for row in candidates]

    assert found(layer) == [(layer, "a.md", None, True, 1)]
    assert {row[:2] for row in found(layer, Layer.D3_SECTION_INDEX)} == {
        (layer, "a.md"),
        (Layer.D3_SECTION_INDEX, "a.md"),
    }


def test_a_name_that_stands_everywhere_is_looked_for_beside_rarer_names_only(
    rows: SearchRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.session("one")
    texts = {f"common{number}.py": "get_name here" for number in range(5)}
    texts |= {"rare.py": "put_name here", "both.py": "put_name and get_name"}
    rows.commit("one", [TextFile(path, [text]) for path, text in texts.items()])

    def named(question: str) -> list[str]:
        found = rows.search.search(rows.request("one", question, dense=False)).candidates
        return [row.path for row in sorted(found, key=lambda row: row.exact_rank or 0) if row.exact_rank]

    assert named("put_name get_name") == ["both.py", "rare.py", *sorted(texts)[1:6]]
    monkeypatch.setattr(exact, "MOST_NAMED_ROWS", 3)
    monkeypatch.setattr(searches, "_search_text", searches._search_text.__wrapped__)
    assert named("put_name get_name") == ["both.py", "rare.py"]
    assert len(named("get_name")) == 6  # there is nothing rarer


@pytest.mark.parametrize(
    ("phrase", "texts"),
    [
        pytest.param("no such  bucket", ["raise: no such bucket", "No\n\tsuch\r\n  bucket!"], id="any white space"),
        pytest.param("f(*args) [a-z]+ ^x|y$", ["f(*args) [a-z]+ ^x|y$"], id="what a pattern would read otherwise"),
        pytest.param("50% of \\d{2} a%b", ["50% of \\d{2} a%b"], id="per cent, backslash, braces"),
        pytest.param("Проверка счёта №5", ["проверка счёта №5"], id="Russian"),
    ],
)
def test_a_phrase_is_found_letter_for_letter(rows: SearchRows, phrase: str, texts: list[str]) -> None:
    rows.session("one")
    words = " ".join(reversed(phrase.split()))
    held = {f"held{number}.md": text for number, text in enumerate(texts)}
    rows.commit("one", [TextFile(path, [text]) for path, text in {**held, "words.md": words}.items()])
    found = rows.search.search(rows.request("one", f'"{phrase}"', dense=False)).candidates
    assert {row.path for row in found if row.exact_rank} == held.keys()


def test_names_are_not_looked_for_where_they_have_no_weight(rows: SearchRows) -> None:
    rows.session("one")
    rows.commit("one", [TextFile("a.py", ["put_name here"]), TextFile("b.py", ["somewhere else"])])
    request = rows.request("one", "put_name", depth=50)
    for weight, named in ((1.0, True), (0.1, True), (0.0, False)):
        found = rows.search.search(replace(request, exact_weight=weight)).candidates
        assert [row.exact_rank is not None for row in found if row.path == "a.py"] == [named]


def test_another_model_or_dimension_is_refused_with_what_to_do(paths: SearchRows) -> None:
    request = paths.request("one", "same words")
    for changed in (
        replace(request, embedding_model="other-8"),
        replace(request, embedding=unit_vector("x", 16)),
        replace(request, embedding_model="other-16", embedding=unit_vector("x", 16)),
    ):
        with pytest.raises(EmbeddingModelMismatch, match=r"hashed-8.*strata index"):
            paths.search.search(changed)
    assert len(paths.search.search(request).candidates) == len(PATHS)


def test_vectors_of_3072_dimensions_are_searched(rows: SearchRows) -> None:
    rows.session("one", dimension=3072, embedding_model="large-3072")
    rows.commit("one", [TextFile("a.md", ["first text"]), TextFile("b.md", ["second text"])])
    request = rows.request("one", "q", embedding=unit_vector("second text", 3072))
    best = rows.search.search(request).candidates[0]
    assert best.path == "b.md"
    assert best.distance == pytest.approx(0, abs=1e-3)


def test_ticket_of_a_thousand_words_is_answered(paths: SearchRows) -> None:
    text = " ".join(f"word{number}" for number in range(1000)) + " same"
    candidates = paths.search.search(paths.request("one", text, limit=3)).candidates
    assert [row.lexical_rank for row in candidates if row.lexical_rank == 1] == [1]


def test_failed_statement_leaves_a_connection_that_works(paths: SearchRows) -> None:
    broken = Filter(exclude_like_patterns=("%\\",))
    with pytest.raises(psycopg.DataError):
        found(paths, broken)
    assert len(found(paths, Filter())) == len(PATHS)


def test_search_over_its_time_limit_is_unavailable_and_the_next_one_works(paths: SearchRows) -> None:
    hurried = PostgresSearch(paths.query, statement_timeout_s=0.05)
    slow = Statement(text=sql.Composed([sql.SQL("SELECT pg_sleep(5)")]), parameters={})
    with pytest.raises(StoreUnavailable):
        hurried._rows(slow, "one", identity())
    assert len(found(paths, Filter())) == len(PATHS)


def test_search_writes_nothing_even_if_it_wanted_to(paths: SearchRows) -> None:
    writing = Statement(text=sql.Composed([sql.SQL("CREATE TEMPORARY TABLE t (a int)")]), parameters={})
    with pytest.raises(StoreUnavailable) as caught:
        paths.search._rows(writing, "one", identity())
    assert isinstance(caught.value.__cause__, psycopg.errors.ReadOnlySqlTransaction)


def test_search_repeats_when_a_new_index_went_live_between_its_statements(
    paths: SearchRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = Statement(text=sql.Composed([sql.SQL("SELECT 77")]), parameters={})
    monkeypatch.setattr(paths.search, "_indexes", {})
    answers = [stale, stale]
    monkeypatch.setattr(
        adapter, "index_statement", lambda session_id: answers.pop() if answers else index_statement(session_id)
    )
    assert len(found(paths, Filter())) == len(PATHS)
    assert answers == []
    monkeypatch.setattr(adapter, "index_statement", lambda session_id: stale)
    paths.search._indexes.clear()
    with pytest.raises(StoreUnavailable):
        found(paths, Filter())


def test_many_rows_elsewhere_do_not_thin_out_a_small_session_or_a_small_right(rows: SearchRows) -> None:
    """Far away vectors of a large session, and a right that lets 1 % of it through."""
    rows.session("large")
    rows.session("small")
    rows.commit("small", [TextFile(f"s{number}.md", [f"needle {number}"]) for number in range(30)])
    with psycopg.connect(rows.database.owner_url) as connection:
        fill_with_noise(connection, "large", 8_000)
    request = rows.request("small", "needle")
    assert_exact(rows, request, rows.search.search(request).candidates)
    narrow = rows.request("large", "needle", identity=identity("ann", groups=["few"]))
    few = rows.search.search(narrow).candidates
    assert len(few) == 10
    with psycopg.connect(rows.database.owner_url) as connection:
        exact = connection.execute(
            """
            SELECT chunk_id FROM rag_chunk_vectors JOIN rag_sessions ON index_id = active_index_id
            WHERE session_id = 'large' AND 'group:few' = ANY (acl)
            ORDER BY embedding <=> %s::halfvec, chunk_id LIMIT 10
            """,
            [str(narrow.embedding.tolist() if narrow.embedding is not None else None)],
        ).fetchall()
    assert [row.chunk_id for row in few] == [chunk_id for (chunk_id,) in exact]


def assert_exact(rows: SearchRows, request: Any, candidates: Any) -> None:
    expected = rows.twin.search(request).candidates
    assert [row.chunk_id for row in candidates] == [row.chunk_id for row in expected]
    assert len(candidates) == request.question.limit


def fill_with_noise(connection: psycopg.Connection[Any], session_id: str, count: int) -> None:
    """Rows without words, of which each hundredth is readable by the group `few` and the others by nobody."""
    vectors = np.random.default_rng(1).standard_normal((count, 8)).round(3).tolist()
    connection.execute(
        """
        WITH noise AS (
            SELECT nextval('rag_chunk_ids') AS chunk_id, number, vector,
                   CASE WHEN number % 100 = 0 THEN '{group:few}'::text[] ELSE '{}' END AS acl,
                   (SELECT active_index_id FROM rag_sessions WHERE session_id = %(session_id)s) AS index_id
            FROM unnest(%(vectors)s::text[]) WITH ORDINALITY AS v (vector, number)
        ), wide AS (
            INSERT INTO rag_chunks (index_id, chunk_id, blob_id, path, layer, ordinal, title, content, span_start,
                                    span_end, metadata, blob_sha, acl)
            SELECT index_id, chunk_id, 0, 'noise/' || number, 'D3_SECTION_INDEX', 0, '', 'noise', 1, 1, '{}', '', acl
            FROM noise
        )
        INSERT INTO rag_chunk_vectors (index_id, chunk_id, layer, path, acl, embedding)
        SELECT index_id, chunk_id, 'D3_SECTION_INDEX', 'noise/' || number, acl, vector::halfvec FROM noise
        """.replace(" % 100", " %% 100"),
        {"session_id": session_id, "vectors": [str(vector) for vector in vectors]},
    )


def many_rows(rows: SearchRows, session_id: str, *, files: int, parts: int) -> None:
    rows.session(session_id)
    texts = ([f"common w{file} v{file}x{part} u{part}" for part in range(parts)] for file in range(files))
    rows.commit(session_id, [TextFile(f"f{number}.md", chunks) for number, chunks in enumerate(texts)])


def executed_nodes(rows: SearchRows, request: SearchRequest) -> list[dict[str, Any]]:
    """The parts of the search's plan that ran, those that read a table with its name."""
    statement = search_statement(request)
    identity = request.question.identity
    with psycopg.connect(rows.database.query_url) as connection:
        connection.execute(
            "SELECT set_config('strata.tenant', %s, true), set_config('strata.principals', %s, true)",
            [identity.tenant, json.dumps(identity.principals)],
        )
        index = index_statement(request.question.session_id)
        (index_id,) = connection.execute(index.text, index.parameters).fetchone() or (0,)
        explain = sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) ") + statement.text
        row = connection.execute(explain, statement.on(index_id)).fetchone()
    assert row is not None
    return [node for node in plan_nodes(row[0][0]["Plan"]) if node["Actual Loops"] > 0]


def rows_read(nodes: list[dict[str, Any]], table: str) -> int:
    """Of one partition: more may not be read."""
    read = [node for node in nodes if node.get("Relation Name", "").startswith(f"{table}_")]
    read = [node for node in read if node["Relation Name"].removeprefix(f"{table}_").isdigit()]
    assert len({node["Relation Name"] for node in read}) == 1
    return sum(round(node["Actual Rows"] * node["Actual Loops"]) for node in read)


def test_plan_finds_words_by_the_index_stays_in_one_partition_and_reads_texts_of_winners_only(
    rows: SearchRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical, "SMALL_ROWS", 0)
    for session in ("one", "two", "three"):
        many_rows(rows, session, files=60, parts=25)
    nodes = executed_nodes(rows, rows.request("two", "w7 u3", limit=5))
    assert rows_read(nodes, "rag_chunks") == 5
    assert rows_read(nodes, "rag_chunk_vectors") > 0
    assert rows_read(nodes, "rag_chunk_terms") > 0
    assert any("term_keys" in node.get("Index Name", "") for node in nodes)


def test_an_index_that_the_planner_does_not_know_yet_is_read_once(rows: SearchRows) -> None:
    many_rows(rows, "large", files=60, parts=25)
    small = 12 * 20
    for number in range(8):  # some of them lie beside the large one, whose statistics stand for all
        many_rows(rows, f"small-{number}", files=12, parts=20)
        nodes = executed_nodes(rows, rows.request(f"small-{number}", "w7 u3 common", limit=50))
        assert rows_read(nodes, "rag_chunks") == 50
        assert rows_read(nodes, "rag_chunk_vectors") <= small + 50
        assert rows_read(nodes, "rag_chunk_terms") <= small + 50


def plan_nodes(plan: dict[str, Any]) -> Any:
    yield plan
    for child in plan.get("Plans", []):
        yield from plan_nodes(child)


def pages(rows: SearchRows, **limits: int) -> list[list[str]]:
    """The paths of every page, also by the fake, which must agree."""
    found: list[list[str]] = []
    after = ""
    while True:
        asked: dict[str, Any] = {"after": after, "limit": 100, "most_bytes": 1_000_000, **limits}
        page = rows.search.file_page("one", identity(), **asked)
        assert page == rows.twin.file_page("one", identity(), **asked)
        if not page:
            return found
        found.append([file.path for file in page])
        after = page[-1].path


def test_files_come_whole_page_by_page_and_each_once(rows: SearchRows) -> None:
    rows.session("one")
    files = [TextFile(f"src/f{number}.py", [f"text {number}", "second chunk"]) for number in range(7)]
    rows.commit("one", files)
    every = [file.path for file in files]
    assert pages(rows) == [every]
    assert pages(rows, limit=3) == [every[:3], every[3:6], every[6:]]
    size = len(files[0].content)  # a page ends with the file that reaches the limit
    assert pages(rows, most_bytes=size + 1) == [every[:2], every[2:4], every[4:6], every[6:]]
    assert pages(rows, most_bytes=1) == [[path] for path in every]
    assert rows.search.file_page("one", identity(), after="", limit=1, most_bytes=1)[0].text == files[0].content
    rows.commit("one", deletes=["src/f0.py"])
    assert pages(rows) == [every[1:]]


def test_an_empty_session_has_no_page_and_an_unknown_one_is_not_found(rows: SearchRows) -> None:
    rows.session("one")
    assert pages(rows) == []
    with pytest.raises(SessionNotFound):
        rows.search.file_page("other", identity(), after="", limit=1, most_bytes=1)
