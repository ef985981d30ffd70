"""How long a question takes, against the plainest SQL on the same rows in the same run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strata.indexing.wrapping import WrappedEmbedder
from strata.model.asking import Retrieved
from strata.model.corpus import Vector
from strata.ports.embedding import Embedder
from strata.ports.search import SearchRequest
from strata.storage.postgres.connection import Database, connect
from strata.storage.postgres.search import PostgresSearch
from strata_bench.corpus import Corpus
from strata_bench.processor import own_cpu_s, server_cpu_s
from strata_bench.workbench import SESSION, Workbench

MAX_QUESTIONS = 200
LIMIT = 10
PLAIN_SQL = """
    SELECT chunk_id FROM rag_chunk_vectors WHERE index_id = %(index_id)s
    ORDER BY embedding <=> %(embedding)s::halfvec LIMIT 50
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownVectors(WrappedEmbedder):
    """An embedder that has embedded the questions before: what is measured is everything else."""

    vectors: Mapping[str, Vector]

    def embed_query(self, text: str) -> Vector:
        return self.vectors[text]


def run_query(bench: Workbench, corpus: Corpus, embedder: Embedder) -> dict[str, Any]:
    """Ask each question in four ways, in turns, so that a busy machine slows all alike. Times are in milliseconds.

    `retrieve` is the use case as it ships, with the question's embedding at hand: its terms, one search by meaning,
    words and names, fifty rows with their texts, reranked, ten of them chosen. `search` is the statement alone, its
    rows read; `embed` the embedding of the question; `plain_sql` fifty ids by distance.
    `p50_ms` and `p95_ms` are those of `retrieve`, `ratio` is its median over that of `plain_sql`. `cpu_ms` is the
    processor's time of one `retrieve`, here and in the server, which hardly depends on what else runs.
    """
    questions = corpus.questions[:MAX_QUESTIONS]
    vectors = {text: embedder.embed_query(text) for text in questions}
    ask = replace(bench.retriever, embedder=KnownVectors(embedder=embedder, vectors=vectors))
    recorder = _Recorder(Database(bench.query_url))
    requests = {}
    for text in questions:
        replace(ask, search=recorder).retrieve(bench.question(text, limit=LIMIT))
        requests[text] = recorder.last
    times: dict[str, list[float]] = {"retrieve": [], "search": [], "embed": [], "plain_sql": []}
    with connect(bench.query_url) as connection:
        connection.execute("SET jit = off")
        index_id, rows = _index(connection)
        for turn in (0, 1):  # the first round warms up
            for text in questions if turn else questions[:20]:
                started = time.perf_counter()
                embedder.embed_query(text)
                embedded = time.perf_counter()
                connection.execute(PLAIN_SQL, {"index_id": index_id, "embedding": _literal(vectors[text])}).fetchall()
                plain = time.perf_counter()
                bench.search.search(requests[text])
                searched = time.perf_counter()
                ask.retrieve(bench.question(text, limit=LIMIT))
                retrieved = time.perf_counter()
                if turn:
                    times["embed"].append(embedded - started)
                    times["plain_sql"].append(plain - embedded)
                    times["search"].append(searched - plain)
                    times["retrieve"].append(retrieved - searched)
    own_s, server_s = own_cpu_s(), server_cpu_s(bench.postgres_pid)
    for text in questions:
        ask.retrieve(bench.question(text, limit=LIMIT))
    found = {name: percentiles(values) for name, values in times.items()}
    return {
        "corpus": corpus.name,
        "questions": len(questions),
        "rows": rows,
        **found["retrieve"],
        "plain_sql_p50_ms": found["plain_sql"]["p50_ms"],
        "plain_sql_p95_ms": found["plain_sql"]["p95_ms"],
        "ratio": round(float(np.median(times["retrieve"]) / np.median(times["plain_sql"])), 2),
        **found,
        "cpu_ms": {
            "here": round((own_cpu_s() - own_s) / len(questions) * 1000, 2),
            "server": round((server_cpu_s(bench.postgres_pid) - server_s) / len(questions) * 1000, 2),
        },
    }


class _Recorder(PostgresSearch):
    """Keeps what was asked last: the request as the use case makes it."""

    last: SearchRequest

    def search(self, request: SearchRequest) -> Retrieved:
        self.last = request
        return super().search(request)


def _index(connection: Any) -> tuple[int, int]:
    """The session's active index and its rows."""
    connection.execute("SELECT set_config('strata.tenant', 'bench', false)")
    connection.execute("SELECT set_config('strata.principals', '[\"user:bench\"]', false)")
    (index_id,) = connection.execute(
        "SELECT active_index_id FROM rag_sessions WHERE session_id = %s", [SESSION]
    ).fetchone()
    (rows,) = connection.execute("SELECT count(*) FROM rag_chunk_vectors WHERE index_id = %s", [index_id]).fetchone()
    return int(index_id), int(rows)


def _literal(vector: Vector) -> str:
    return "[" + ",".join(map(str, vector.tolist())) + "]"


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    p50, p95 = np.quantile(seconds, [0.5, 0.95]) * 1000
    return {"p50_ms": round(float(p50), 2), "p95_ms": round(float(p95), 2)}
