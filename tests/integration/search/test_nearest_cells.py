"""A search by cells finds what a look at every row finds, under any filter; small or rare answers are exact."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest

from strata.model.access import Identity
from strata.model.asking import Filter
from strata.model.corpus import EMBEDDED_LAYERS, Layer, Vector
from strata.ports.search import ChunkSearch, SearchRequest
from strata.retrieval.statements import dense
from strata.retrieval.statements.files import index_statement
from strata.retrieval.statements.rows import Statement
from strata.retrieval.statements.search import search_statement
from strata.storage.postgres import search as adapter
from strata.storage.postgres.queries import queries
from tests.support.factories import identity
from tests.support.postgres import TestDatabase
from tests.support.search_rows import SearchRows, TextFile

ROWS, DIMENSION, CLUSTERS = 3_000, 32, 40
ANN, BOB = identity("ann"), identity("bob", groups=["red"])


def vectors(count: int, dimension: int, seed: int = 1) -> Any:
    """Unit vectors in clusters, as texts have them."""
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(CLUSTERS, dimension))
    made = centres[chance.integers(CLUSTERS, size=count)] + 0.6 * chance.normal(size=(count, dimension))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def fill(rows: SearchRows, name: str, made: Any, *, readers: Sequence[str] = ()) -> None:
    """One row of 10 is in `tenth/`, one of 100 in `hundredth/`, one of 1,000 in `thousandth/`; every third is Bob's."""
    rows.session(name, ANN, readers=readers, dimension=made.shape[1])
    files = []
    for number, vector in enumerate(made):
        folder = "thousandth/" if number % 1_000 == 7 else "hundredth/" if number % 100 == 3 else "most/"
        folder = "tenth/" if number % 10 == 1 else folder
        files.append(
            TextFile(
                f"{folder}f{number}.md",
                [f"{name} word{number}"],
                layer=Layer.D3_SECTION_INDEX if number % 4 else Layer.C0_SOURCE_CHUNKS,
                acl=("group:red", "user:ann") if number % 3 == 0 else None,
                embeddings=[vector],
            )
        )
    rows.commit(name, files)


@pytest.fixture(scope="module")
def large(module_postgres: TestDatabase) -> Iterator[SearchRows]:
    """A session with cells; the thresholds are a test's, the rest is as it ships."""
    rows = SearchRows(module_postgres, nearest_from_rows=ROWS)
    fill(rows, "large", vectors(ROWS, DIMENSION), readers=["group:red"])
    yield rows
    rows.close()


@pytest.fixture(autouse=True)
def least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "NEAREST_LEAST_ROWS", 200)


def ids(search: ChunkSearch, request: SearchRequest) -> list[int]:
    return [row.chunk_id for row in search.search(request).candidates]


def cells(database: TestDatabase) -> set[str]:
    with psycopg.connect(database.owner_url) as connection:
        found = connection.execute("SELECT relname FROM pg_class WHERE relname LIKE 'strata\\_nearest\\_%'").fetchall()
    return {name for (name,) in found}


def plan_of(database: TestDatabase, session_id: str, statement: Statement) -> str:
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("SELECT set_config('strata.tenant', 'acme', true)")
        index = index_statement(session_id)
        (index_id,) = connection.execute(index.text, index.parameters).fetchone() or (0,)
        explained = connection.execute(
            b"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) " + statement.text.as_bytes(), statement.on(index_id)
        )
        return "\n".join(line for (line,) in explained.fetchall())


FILTERS = {
    "everything": (Filter(), True),
    "a layer": (Filter(layers=(Layer.D3_SECTION_INDEX,)), True),
    "one row of ten": (Filter(path_prefixes=("tenth/",)), True),
    "all but one of ten": (Filter(exclude_path_prefixes=("tenth/",)), True),
    "one row of a hundred": (Filter(path_prefixes=("hundredth/",)), False),
    "one row of a thousand": (Filter(path_prefixes=("thousandth/",)), False),
    "preferences": (Filter(prefer_path_prefixes=("tenth/",)), False),
}


@pytest.mark.parametrize("caller", [ANN, BOB, identity("ann", groups=["red"])], ids=["ann", "bob", "ann of the reds"])
@pytest.mark.parametrize(("filter", "by_cells"), FILTERS.values(), ids=FILTERS)
def test_both_plans_agree(large: SearchRows, filter: Filter, by_cells: bool, caller: Identity) -> None:
    asked = vectors(25, DIMENSION, seed=2)
    found = wanted = 0
    for vector in asked:
        request = large.request("large", "?", identity=caller, filter=filter, embedding=vector)
        exact = large.twin.search(request).candidates
        actual = large.search.search(request).candidates
        assert len(actual) == len(exact)
        found += len({row.chunk_id for row in actual} & {row.chunk_id for row in exact})
        wanted += len(exact)
        known = {row.chunk_id: row.distance for row in exact}
        assert all(row.distance == pytest.approx(known.get(row.chunk_id, row.distance), abs=1e-5) for row in actual)
    assert found >= 0.99 * wanted
    if not by_cells:
        assert found == wanted
    statement = search_statement(large.request("large", "?", identity=ANN, filter=filter, embedding=asked[0]))
    assert used_cells(large.database, statement) == by_cells


def used_cells(database: TestDatabase, statement: Statement) -> bool:
    """Whether cells were searched."""
    plan = plan_of(database, "large", statement)
    lines = [line for line in plan.splitlines() if "Function Scan on strata_nearest" in line]
    return any("never executed" not in line for line in lines)


@pytest.mark.parametrize("analysed", [False, True], ids=["as filled", "analysed"])
def test_rows_that_the_cells_name_are_looked_up_by_their_keys(large: SearchRows, analysed: bool) -> None:
    """Whatever the planner knows of the table: a search that reads all of its rows once more has won nothing."""
    if analysed:
        with psycopg.connect(large.database.owner_url, autocommit=True) as connection:
            connection.execute("ANALYZE rag_chunk_vectors")
    request = large.request("large", "?", identity=ANN, embedding=vectors(1, DIMENSION, seed=2)[0])
    plan = plan_of(large.database, "large", search_statement(request))
    scans = re.findall(r"Scan.* on rag_chunk_vectors_\d+ .*\(actual rows=([\d.]+) loops=(\d+)\)", plan)
    assert 0 < sum(float(rows) * int(loops) for rows, loops in scans) <= 4 * request.depth


def test_a_list_that_the_cells_leave_short_is_drawn_from_every_row(
    large: SearchRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "NEAREST_LEAST_ROWS", 0)
    monkeypatch.setattr(dense, "NEAREST_LEAST_SHARE", 0.0)
    rare = Filter(path_prefixes=("thousandth/",))
    request = large.request("large", "?", identity=ANN, filter=rare, embedding=vectors(1, DIMENSION, seed=4)[0])
    assert used_cells(large.database, search_statement(request))
    assert ids(large.search, request) == ids(large.twin, request)


def test_an_exact_search_can_be_asked_for(large: SearchRows) -> None:
    request = replace(large.request("large", "?", embedding=vectors(1, DIMENSION, seed=4)[0]), approximate=False)
    assert not used_cells(large.database, search_statement(request))
    assert ids(large.search, request) == ids(large.twin, request)


def test_the_settings_of_the_scan_end_with_the_search(large: SearchRows) -> None:
    def settings() -> object:
        return large.query.transact(
            lambda connection: connection.execute(
                "SELECT pg_backend_pid(), current_setting('hnsw.ef_search'), current_setting('hnsw.iterative_scan')"
            ).fetchone()
        )

    request = large.request("large", "?", embedding=vectors(1, DIMENSION, seed=4)[0])
    large.search.search(request)
    before = settings()
    large.search.search(request)
    assert settings() == before
    assert before is not None
    assert tuple(before)[1:] == ("40", "off")  # type: ignore[arg-type]


def test_new_rows_are_in_the_cells_and_deleted_ones_are_not(large: SearchRows) -> None:
    vector: Vector = vectors(1, DIMENSION, seed=77)[0]
    large.commit("large", [TextFile("most/new.md", ["new"], embeddings=[vector])])
    request = large.request("large", "?", embedding=vector)
    assert large.search.search(request).candidates[0].path == "most/new.md"
    large.commit("large", deletes=["most/new.md"])
    assert "most/new.md" not in {row.path for row in large.search.search(request).candidates}


def test_another_session_of_the_partition_is_not_searched_by_this_cells(large: SearchRows) -> None:
    for number in range(9):  # one of nine indexes lies in the same of eight partitions
        fill(large, f"small-{number}", vectors(30, DIMENSION, seed=100 + number))
        request = large.request(f"small-{number}", "?", embedding=vectors(1, DIMENSION, seed=4)[0])
        assert ids(large.search, request) == ids(large.twin, request)
    assert len(cells(large.database)) == 1


def test_a_search_learns_that_its_session_has_cells_by_now(
    fresh_postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = SearchRows(fresh_postgres, nearest_from_rows=300)
    fill(rows, "grows", vectors(200, DIMENSION))
    asked: list[bool] = []

    def search_statement_seen(request: SearchRequest, *, cells: bool) -> Statement:
        asked.append(cells)
        return search_statement(request, cells=cells)

    monkeypatch.setattr(adapter, "search_statement", search_statement_seen)
    request = rows.request("grows", "?", embedding=vectors(1, DIMENSION, seed=4)[0], identity=ANN)
    for _ in range(2):
        assert ids(rows.search, request) == ids(rows.twin, request)
    more = vectors(200, DIMENSION, seed=9)
    rows.commit("grows", [TextFile(f"more/f{number}.md", ["more"], embeddings=[more[number]]) for number in range(200)])
    assert len(cells(fresh_postgres)) == 1
    for _ in range(2):
        assert ids(rows.search, request) == ids(rows.twin, request)
    assert asked == [True, False, False, True]
    rows.close()


def test_vectors_are_counted_only_where_there_may_be_enough_of_them(fresh_postgres: TestDatabase) -> None:
    """A change of one file costs as much in a session of any size."""
    rows = SearchRows(fresh_postgres, nearest_from_rows=300)
    fill(rows, "grows", vectors(299, DIMENSION))
    with psycopg.connect(fresh_postgres.index_url, autocommit=True) as connection:
        row = connection.execute("SELECT active_index_id FROM rag_sessions WHERE session_id = 'grows'").fetchone()
        assert row is not None
        parameters = {"index_id": row[0], "least_rows": 300, "embedded_layers": sorted(EMBEDDED_LAYERS)}

        def asked() -> bool:
            return connection.execute(queries("commit")["build_cells"], parameters).fetchone() is not None

        assert not asked()
        rows.commit("grows", [TextFile("one/more.md", ["one"], embeddings=[vectors(1, DIMENSION)[0]])])
        assert len(cells(fresh_postgres)) == 1
        assert not asked()
        more = vectors(299, DIMENSION, seed=9)
        files = [TextFile(f"two/f{number}.md", ["two"], embeddings=[vector]) for number, vector in enumerate(more)]
        rows.commit("grows", files)
        assert not asked()
        rows.commit("grows", [TextFile("last/one.md", ["one"], embeddings=[vectors(1, DIMENSION)[0]])])
        assert not asked()
        again = connection.execute("SELECT nearest_rows FROM rag_indexes WHERE index_id = %s", [row[0]]).fetchone()
        assert (again, len(cells(fresh_postgres))) == ((600,), 1)
    rows.close()


def test_more_than_2000_dimensions(fresh_postgres: TestDatabase) -> None:
    rows = SearchRows(fresh_postgres, nearest_from_rows=300)
    fill(rows, "wide", vectors(300, 3_072))
    assert len(cells(fresh_postgres)) == 1
    found = 0
    for vector in vectors(10, 3_072, seed=3):
        request = rows.request("wide", "?", embedding=vector, identity=ANN)
        found += len(set(ids(rows.search, request)) & set(ids(rows.twin, request)))
    assert found >= 99
    rows.close()


def test_the_cells_goes_with_its_index(fresh_postgres: TestDatabase) -> None:
    rows = SearchRows(fresh_postgres, nearest_from_rows=100)
    fill(rows, "gone", vectors(120, DIMENSION))
    assert len(cells(fresh_postgres)) == 1
    with psycopg.connect(fresh_postgres.index_url) as connection:
        connection.execute("UPDATE rag_sessions SET active_index_id = NULL")
        connection.execute("DELETE FROM rag_indexes")
    assert cells(fresh_postgres) == set()
    rows.close()


def test_thirty_rows_beside_thousands_of_another_session_all_come_back(large: SearchRows) -> None:
    fill(large, "thirty", vectors(30, DIMENSION, seed=555))
    far = vectors(ROWS, DIMENSION)[ROWS // 2]
    everybody = identity("ann", groups=["red"])
    for limit, expected in ((10, 10), (30, 30), (50, 30)):
        request = large.request("thirty", "?", embedding=far, limit=limit, identity=everybody)
        assert ids(large.search, request) == ids(large.twin, request)
        assert len(ids(large.search, request)) == expected


@pytest.mark.parametrize("dimension", [4, 384, 1_536, 3_072, 4_000])
def test_cells_of_any_number_of_rows_can_be_made_in_256_mb(module_postgres: TestDatabase, dimension: int) -> None:
    # Fifty rows for each cell, in two bytes a dimension, and four bytes for each of them and each cell.
    with psycopg.connect(module_postgres.owner_url) as connection:
        found = connection.execute(
            "SELECT strata_cells(rows, %s) FROM unnest('{900,1600000,1000000000}'::bigint[]) AS rows", [dimension]
        ).fetchall()
    few, many, most = (cells for (cells,) in found)
    assert few == 30 < many == most
    assert 0.7 * 2**28 < 50 * most * (4 * most + 2 * dimension) + 16 * most * dimension <= 2**28
