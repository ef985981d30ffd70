"""How long a question takes, against the plainest SQL on the same rows in the same run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from strata.model.corpus import Vector
from strata.ports import SearchRequest
from strata.retrieval.analyser import query_terms
from strata.retrieval.naming import names_in
from strata.storage.postgres.connection import connect
from strata_bench.corpus import Corpus
from strata_bench.workbench import SESSION, Workbench

MAX_QUESTIONS = 200
LIMIT = 10
PLAIN_SQL = """
    SELECT chunk_id FROM rag_chunk_vectors WHERE index_id = %(index_id)s
    ORDER BY embedding <=> %(embedding)s::halfvec LIMIT 50
"""


def run_query(bench: Workbench, corpus: Corpus) -> dict[str, Any]:
    """Ask each question in four ways, in turns, so that a busy machine slows all alike. Times are in milliseconds.

    `retrieve` is the use case: terms, embedding, one search by meaning and words, fused, ten rows with their texts.
    `search` is the same with the embedding at hand; `embed` the embedding alone; `plain_sql` fifty ids by distance.
    `p50_ms` and `p95_ms` are those of `search`, `ratio` is its median over that of `plain_sql`.
    """
    questions = [text for text in corpus.questions if query_terms(text)][:MAX_QUESTIONS]
    times: dict[str, list[float]] = {"retrieve": [], "search": [], "embed": [], "plain_sql": []}
    with connect(bench.query_url) as connection:
        connection.execute("SET jit = off")
        index_id, rows = _index(connection)
        for turn in (0, 1):  # the first round warms up
            for text in questions if turn else questions[:20]:
                started = time.perf_counter()
                vector = bench.retriever.embedder.embed_query(text)
                embedded = time.perf_counter()
                connection.execute(PLAIN_SQL, {"index_id": index_id, "embedding": _literal(vector)}).fetchall()
                plain = time.perf_counter()
                bench.search.search(_request(bench, text, vector))
                searched = time.perf_counter()
                bench.retriever.retrieve(bench.question(text, limit=LIMIT))
                retrieved = time.perf_counter()
                if turn:
                    times["embed"].append(embedded - started)
                    times["plain_sql"].append(plain - embedded)
                    times["search"].append(searched - plain)
                    times["retrieve"].append(retrieved - searched)
    found = {name: percentiles(values) for name, values in times.items()}
    return {
        "corpus": corpus.name,
        "questions": len(questions),
        "rows": rows,
        **found["search"],
        "plain_sql_p50_ms": found["plain_sql"]["p50_ms"],
        "plain_sql_p95_ms": found["plain_sql"]["p95_ms"],
        "ratio": round(float(np.median(times["search"]) / np.median(times["plain_sql"])), 2),
        **found,
    }


def _index(connection: Any) -> tuple[int, int]:
    """The session's active index and its rows."""
    connection.execute("SELECT set_config('strata.tenant', 'bench', false)")
    connection.execute("SELECT set_config('strata.principals', '[\"user:bench\"]', false)")
    (index_id,) = connection.execute(
        "SELECT active_index_id FROM rag_sessions WHERE session_id = %s", [SESSION]
    ).fetchone()
    (rows,) = connection.execute("SELECT count(*) FROM rag_chunk_vectors WHERE index_id = %s", [index_id]).fetchone()
    return int(index_id), int(rows)


def _request(bench: Workbench, text: str, vector: Vector) -> SearchRequest:
    """As `Retriever.retrieve` makes it."""
    depth = bench.retriever.depth
    return SearchRequest(
        question=bench.question(text, limit=LIMIT),
        embedding=vector,
        embedding_model=bench.retriever.embedder.model_id,
        terms=query_terms(text),
        names=names_in(text),
        depth=depth,
        rows=max(depth, 2 * LIMIT),
    )


def _literal(vector: Vector) -> str:
    return "[" + ",".join(map(str, vector.tolist())) + "]"


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    p50, p95 = np.quantile(seconds, [0.5, 0.95]) * 1000
    return {"p50_ms": round(float(p50), 2), "p95_ms": round(float(p95), 2)}
