"""Links between the files of a session, read for one caller: each call is one statement in one round trip."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import psycopg

from strata.errors import SessionNotFound
from strata.model.access import Identity
from strata.model.corpus import LinkKind
from strata.model.links import Drifted, FoundLink, Links, Place
from strata.storage.postgres.connection import Connection, Database
from strata.storage.postgres.queries import queries

# The second wall's settings, local to the transaction; whoever connects as the index role doesn't need them.
_SETTINGS = """
    SELECT set_config('strata.tenant', %(tenant)s, true), set_config('strata.principals', %(principals)s, true),
           set_config('transaction_read_only', 'on', true), set_config('jit', 'off', true),
           set_config('statement_timeout', %(statement_timeout)s, true)
"""

_HISTORIES = r"(^|/)(change(s|log)|history|news|release[-_ ]?notes?|releases)([-_.][^/]*)?$"
"""Documents that name what once was: it is no drift there."""


class PostgresLinks:
    """Keeps the promise of `strata.ports.search.LinkReader`."""

    def __init__(self, database: Database, *, statement_timeout_s: float = 20.0) -> None:
        self._database = database
        self._statement_timeout_ms = round(statement_timeout_s * 1000)
        self._sql = queries("links")

    def links(
        self, session_id: str, identity: Identity, *, path: str | None = None, symbol: str | None = None, limit: int
    ) -> Links:
        if (path is None) == (symbol is None):
            raise ValueError("links are those of a path or of a symbol")
        rows = self._rows(
            "links",
            session_id,
            identity,
            {"path": path, "symbol": symbol, "symbol_key": symbol and symbol.rpartition(".")[2], "limit": limit},
        )
        found: dict[str, list[FoundLink]] = {"outgoing": [], "incoming": []}
        for direction, kind, source, name, line, target, _, found_path, defined, found_line in rows:
            if direction is None:
                continue
            leads_to = None if found_path is None else Place(path=found_path, name=defined, line=found_line)
            found[direction].append(
                FoundLink(kind=LinkKind(kind), path=source, symbol=name, line=line, target=target, leads_to=leads_to)
            )
        return Links(outgoing=tuple(found["outgoing"]), incoming=tuple(found["incoming"]))

    def drift(self, session_id: str, identity: Identity, *, limit: int) -> list[Drifted]:
        rows = self._rows("drift", session_id, identity, {"limit": limit, "histories": _HISTORIES})
        return [
            Drifted(path=path, line=line, name=target.lstrip("/"), is_path=is_path, known=known)
            for path, line, target, is_path, known in rows
            if path is not None
        ]

    def _rows(
        self, name: str, session_id: str, identity: Identity, parameters: Mapping[str, object]
    ) -> list[tuple[Any, ...]]:
        principals = list(identity.principals)
        settings = {
            "tenant": identity.tenant,
            "principals": json.dumps(principals),
            "statement_timeout": str(self._statement_timeout_ms),
        }
        values = {**parameters, "session_id": session_id, "tenant": identity.tenant, "principals": principals}

        def work(connection: Connection) -> psycopg.Cursor[tuple[Any, ...]]:
            connection.execute(_SETTINGS, settings)
            return connection.execute(self._sql[name], values)

        rows = self._database.pipelined(work).fetchall()
        if not rows:
            raise SessionNotFound
        return rows
