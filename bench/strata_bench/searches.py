"""Searches of grown sessions: their time, what the approximate plan finds of the exact one, what planning costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from psycopg import sql

from strata.model.access import Identity
from strata.model.asking import Filter, Question
from strata.model.corpus import Vector
from strata.ports.embedding import Embedder
from strata.ports.search import SearchRequest
from strata.retrieval.analyser import leading_terms, query_terms
from strata.retrieval.naming import names_in
from strata.retrieval.statements.search import search_statement
from strata.storage.postgres.connection import Database
from strata.storage.postgres.search import PostgresSearch
from strata_bench.processor import own_cpu_s, tree_cpu_s
from strata_bench.query import LIMIT, percentiles
from strata_bench.workbench import IDENTITY, Workbench

SHARES = {"100 %": "all", "10 %": "tenth", "1 %": "hundredth", "0.1 %": "thousandth"}
"""How much of the rows a caller's groups let through."""
WARM_UPS = 5
PLANNED = 300
"""Plannings at least: the system counts processor time in hundredths of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Whole questions and their first lines, with their vectors. The first `timed` of either are timed; all whole ones
    are compared with a look at every row, for each share of readers."""

    questions: Sequence[tuple[str, Vector]]
    lines: Sequence[tuple[str, Vector]]
    timed: int


def measured_searches(
    bench: Workbench, embedder: Embedder, session_of: Callable[[int], str], asked: Asked
) -> dict[str, Any]:
    """`session_of` names the session that the question at a place is asked of.

    `cpu_ms` is the processor's time of one whole search, here and in the database's process for this connection.
    """
    whole, short, dense, lexical = [], [], [], []
    requests = [
        search_request(embedder, session_of(place), text, vector, "all")
        for place, (text, vector) in enumerate(asked.questions[: asked.timed])
    ]
    for request in requests[:WARM_UPS]:
        bench.search.search(request)
    for request in requests:
        whole.append(_timed(bench, request))
        dense.append(_timed(bench, _dense_alone(request)))
        lexical.append(_timed(bench, replace(request, embedding=None, embedding_model=None)))
    backend = _backend(bench.query)
    own_s, server_s = own_cpu_s(), tree_cpu_s(backend)
    for request in requests:
        bench.search.search(request)
    own_s, server_s = own_cpu_s() - own_s, tree_cpu_s(backend) - server_s
    for place, (text, vector) in enumerate(asked.lines[: asked.timed]):
        short.append(_timed(bench, search_request(embedder, session_of(place), text, vector, "all")))
    return {
        **percentiles(whole),
        "cpu_ms": {
            "here": round(own_s / len(requests) * 1000, 2),
            "server": round(server_s / len(requests) * 1000, 2),
        },
        "first_lines": percentiles(short),
        "dense": percentiles(dense),
        "lexical": percentiles(lexical),
        "recall@10": _recall(bench, embedder, session_of, asked),
    }


def _recall(bench: Workbench, embedder: Embedder, session_of: Callable[[int], str], asked: Asked) -> dict[str, float]:
    """By share, where it lets any row through."""
    found, wanted = dict.fromkeys(SHARES, 0), dict.fromkeys(SHARES, 0)
    for place, (text, vector) in enumerate(asked.questions):
        for share, group in SHARES.items():
            request = _dense_alone(search_request(embedder, session_of(place), text, vector, group))
            exact = {row.chunk_id for row in bench.search.search(replace(request, approximate=False)).candidates}
            actual = {row.chunk_id for row in bench.search.search(request).candidates}
            found[share] += len(actual & exact)
            wanted[share] += len(exact)
    return {share: round(found[share] / wanted[share], 4) for share in SHARES if wanted[share]}


def session_costs(bench: Workbench, embedder: Embedder, sessions: Sequence[str], asked: Asked) -> dict[str, float]:
    """What a connection pays that asks one session after the other, each at least once.

    `planning_cpu_ms` is its process' processor time for planning one whole question, `backend_mb` what that process
    then holds by itself.
    """
    database = Database(bench.query_url)
    search = _Planning(database)
    requests = []
    for place in range(max(len(sessions), PLANNED)):
        text, vector = asked.questions[place % len(asked.questions)]
        requests.append(search_request(embedder, sessions[place % len(sessions)], text, vector, "all"))
    for request in requests[: len(sessions)]:
        search.search(request)
    backend = _backend(database)
    before_s = tree_cpu_s(backend)
    for request in requests:
        search.plan(request)
    cpu_ms = (tree_cpu_s(backend) - before_s) / len(requests) * 1000
    held = _own_megabytes(backend)
    database.close()
    return {"planning_cpu_ms": round(cpu_ms, 2), "backend_mb": round(held, 1)}


class _Planning(PostgresSearch):
    def plan(self, request: SearchRequest) -> None:
        """The statement is planned and not carried out."""
        question = request.question
        statement = search_statement(request, cells=question.session_id not in self._without_cells)
        index_id = self._index_of(question.session_id, question.identity)
        self._read(sql.SQL("EXPLAIN ") + statement.text, statement.on(index_id), question.identity, index_id)


def _backend(database: Database) -> int:
    """The database's process for this connection."""
    (pid,) = database.transact(lambda connection: connection.execute("SELECT pg_backend_pid()").fetchone()) or (0,)
    return int(pid)


def _own_megabytes(pid: int) -> float:
    """What a process holds that it shares with no other; 0.0 where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0.0
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    return int(lines["RssAnon"].split()[0]) / 1024


def _timed(bench: Workbench, request: SearchRequest) -> float:
    started = time.perf_counter()
    bench.search.search(request)
    return time.perf_counter() - started


def _dense_alone(request: SearchRequest) -> SearchRequest:
    return replace(request, terms=(), rows=0)


def search_request(embedder: Embedder, session_id: str, text: str, vector: Vector, group: str) -> SearchRequest:
    reader = Identity(subject="reader", tenant=IDENTITY.tenant, groups=(group,))
    return SearchRequest(
        question=Question(text=text, session_id=session_id, identity=reader, filter=Filter(), limit=LIMIT),
        embedding=vector,
        embedding_model=embedder.model_id,
        terms=query_terms(text),
        leading_terms=leading_terms(text),
        names=names_in(text),
        depth=50,
        rows=50,
    )
