"""What each statement touches, by Postgres' own account: it says the same on any machine, however busy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg.rows import tuple_row

from strata.storage.postgres import connection

_EXPLAIN = b"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "
_EXPLAINABLE = (b"SELECT", b"INSERT", b"UPDATE", b"DELETE", b"WITH")


@dataclass(frozen=True, slots=True)
class Touched:
    """`rows` that a plan's nodes read, also those that a filter threw away; `pages` that they looked at."""

    statement: str
    rows: int
    pages: int
    plan: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.rows} rows, {self.pages} pages: {self.statement}\n" + "\n".join(_lines(self.plan))


@dataclass(slots=True)
class Plans:
    """The statements of the block, in their order."""

    statements: list[Touched] = field(default_factory=list)

    def largest(self) -> dict[str, Touched]:
        """The statement of each text that read most."""
        found: dict[str, Touched] = {}
        for touched in self.statements:
            if touched.statement not in found or found[touched.statement].rows < touched.rows:
                found[touched.statement] = touched
        return found


@contextmanager
def recorded_plans(patch: pytest.MonkeyPatch) -> Iterator[Plans]:
    """Every connection that is opened in the block runs each statement twice: explained and undone, then for real.

    COPY, and what is no statement of rows, is not seen.
    """
    plans = Plans()

    class Recording(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Recording:
            statement = _without_comments(query)
            if statement.upper().startswith(_EXPLAINABLE):
                with psycopg.Cursor(self.connection, row_factory=tuple_row) as explaining:
                    explaining.execute(b"SAVEPOINT explained")
                    explained = explaining.execute(_EXPLAIN + statement, params).fetchone()
                    explaining.execute(b"ROLLBACK TO SAVEPOINT explained")
                plans.statements.append(_touched(statement, explained))
            return super().execute(query, params, **options)

    open_connection = connection.connect

    def connect(url: str) -> connection.Connection:
        opened = open_connection(url)
        opened.cursor_factory = Recording
        return opened

    with patch.context() as patched:
        patched.setattr(connection, "connect", connect)
        yield plans


def _without_comments(query: Any) -> bytes:
    text = query if isinstance(query, bytes) else str(query).encode()
    return re.sub(rb"--[^\n]*(\n|$)", b"", text).strip()


def _touched(statement: bytes, explained: Any) -> Touched:
    plan = explained[0][0]["Plan"]
    return Touched(
        statement=" ".join(statement.decode().split()),
        rows=round(sum(_rows(node) for node in _nodes(plan))),
        pages=sum(_own_pages(node) for node in _nodes(plan)),
        plan=plan,
    )


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _rows(node: Mapping[str, Any]) -> float:
    given = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck")
    return float(sum(node.get(name, 0) for name in given) * node.get("Actual Loops", 0))


def _own_pages(node: Mapping[str, Any]) -> int:
    """Without those of its children, which a node counts too, unless they change rows in a WITH: these run last."""
    return max(0, _pages(node) - sum(_pages(child) for child in node.get("Plans", ())))


def _pages(node: Mapping[str, Any]) -> int:
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


def _lines(plan: Mapping[str, Any], indent: str = "  ") -> Iterator[str]:
    where = " ".join(
        str(plan[name]) for name in ("Relation Name", "Index Name", "Index Cond", "Filter") if name in plan
    )
    yield f"{indent}{plan['Node Type']} {where}: {_rows(plan):.0f} rows"
    for child in plan.get("Plans", ()):
        yield from _lines(child, indent + "  ")
