"""A search is planned once for a connection, an index and a shape; whatever becomes of the plan, its rows are right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from strata.model.asking import Filter
from strata.retrieval.prepared import as_text
from tests.support.factories import identity
from tests.support.postgres import TestDatabase
from tests.support.search_rows import SearchRows, TextFile

ANN = identity("ann")
MOST = 24
NASTY = ["", "NULL", "null", "a,b", "{x}", '"', "\\", "\\\\'", "'); DROP TABLE rag_chunks; --", "$1 %s", "ё \n\t", " "]


@pytest.fixture(scope="module")
def rows(module_postgres: TestDatabase) -> Iterator[SearchRows]:
    rows = SearchRows(module_postgres)
    for number in range(4):
        rows.session(f"s{number}", ANN)
        rows.commit(f"s{number}", [TextFile("a.md", [f"webhook of session {number}", "something else"])])
    yield rows
    rows.close()


def prepared(rows: SearchRows) -> set[str]:
    text = "SELECT name FROM pg_prepared_statements"
    return {name for (name,) in rows.query.transact(lambda connection: connection.execute(text).fetchall())}


def found(rows: SearchRows, session_id: str, filter: Filter = Filter()) -> list[str]:  # noqa: B008 - frozen
    request = rows.request(session_id, "webhook", identity=ANN, filter=filter)
    actual = [row.content for row in rows.search.search(request).candidates]
    assert actual == [row.content for row in rows.twin.search(request).candidates]
    return actual


def test_one_plan_serves_all_searches_of_a_shape_in_an_index(rows: SearchRows) -> None:
    for session_id in ("s0", "s1", "s0", "s1"):  # from the second time on it is known that there are no cells
        assert found(rows, session_id)[0] == f"webhook of session {session_id[1:]}"
    before = prepared(rows)
    assert len(before) >= 2
    found(rows, "s0")
    found(rows, "s1")
    assert prepared(rows) == before


def test_a_connection_that_lost_its_plans_makes_them_anew(rows: SearchRows) -> None:
    found(rows, "s0")
    before = prepared(rows)
    rows.query.transact(lambda connection: connection.execute("DEALLOCATE ALL"))
    assert found(rows, "s0")
    assert prepared(rows) <= before


def test_few_plans_are_kept(rows: SearchRows) -> None:
    for number in range(MOST):
        filter = Filter(
            path_prefixes=("a",), prefer_non_tests=number % 2 == 0, exclude_path_prefixes=("b",) * (number % 3)
        )
        for session_id in ("s0", "s1", "s2", "s3"):
            found(rows, session_id, filter)
            found(rows, session_id)
        assert len(prepared(rows)) <= MOST
    assert len(prepared(rows)) > 4


def test_arguments_arrive_letter_for_letter(rows: SearchRows) -> None:
    values: list[object] = [NASTY, "it's", None, 0.1, 7, []]
    text = "SELECT $1::text[], $2::text, $3::text, $4::float8, $5::bigint, $6::text[]"
    columns = "(a text[], b text, c text, d float8, e bigint, f text[])"

    def call(connection: Any) -> Any:
        return connection.execute(
            f"SELECT * FROM strata_prepared('strata_test', %s, %s::text[]) AS found {columns}",
            [text, as_text(values)],
        ).fetchone()

    assert list(rows.query.transact(call)) == values
