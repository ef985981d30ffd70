"""How search grows with an index: its time at each size, and what the approximate plan finds of the exact one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from strata.model.access import Identity
from strata.model.asking import Filter, Question
from strata.model.corpus import EmbeddedChunk, Vector
from strata.ports import Embedder, SearchRequest
from strata.retrieval.analyser import query_terms
from strata.retrieval.naming import names_in
from strata_bench.copies import GrownSession, embedded_chunks
from strata_bench.corpus import Corpus
from strata_bench.query import LIMIT, percentiles
from strata_bench.workbench import IDENTITY, Workbench, make_session

BASE_CHUNKS = 3_000
MAX_QUESTIONS = 50
SHARES = {"100 %": "all", "10 %": "tenth", "1 %": "hundredth", "0.1 %": "thousandth"}
"""How much of the rows a caller's groups let through."""


def run_scale(
    bench: Workbench,
    corpus: Corpus,
    embedder: Embedder,
    *,
    sizes: Sequence[int],
    sessions: int,
    churn: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """One session grown to each of the sizes, then (if `sessions`) as many of 1,000 chunks each.

    Times are in milliseconds, of a whole search with its rows read, without the embedding of the question.
    """
    say(f"embedding about {BASE_CHUNKS} chunks of {corpus.name}")
    base = embedded_chunks(corpus, embedder, at_most=BASE_CHUNKS)
    questions = [(text, embedder.embed_query(text)) for text in corpus.questions if query_terms(text)][:MAX_QUESTIONS]
    one = _grown(bench, embedder, base, "one")
    grown = []
    for size in sorted(sizes):
        started = time.perf_counter()
        rows = one.grow(size)
        seconds = time.perf_counter() - started
        if size == max(sizes):
            one.churn(churn)
        say(f"{rows} chunks in one session")
        grown.append({"rows": rows, "grow_s": round(seconds, 1), **_measured(bench, embedder, "one", questions)})
    many = None
    if sessions:
        for number in range(sessions):
            _grown(bench, embedder, base, f"many-{number}").grow(1_000)
        say(f"{sessions} sessions of 1,000 chunks")
        many = {"sessions": sessions, **_measured(bench, embedder, f"many-{sessions // 2}", questions)}
    return {"corpus": corpus.name, "questions": len(questions), "churn": churn, "sizes": grown, "many_sessions": many}


def _grown(bench: Workbench, embedder: Embedder, base: Sequence[EmbeddedChunk], name: str) -> GrownSession:
    make_session(bench.sessions, name, embedder)
    return GrownSession(
        session_id=name,
        tenant=IDENTITY.tenant,
        base=base,
        cache=bench.cache,
        sessions=bench.sessions,
        embedding_model=embedder.model_id,
    )


def _measured(
    bench: Workbench, embedder: Embedder, session_id: str, questions: Sequence[tuple[str, Vector]]
) -> dict[str, Any]:
    whole, dense, lexical = [], [], []
    found = dict.fromkeys(SHARES, 0)
    wanted = dict.fromkeys(SHARES, 0)
    for text, vector in questions[:5]:  # warms up
        bench.search.search(_request(embedder, session_id, text, vector, "all"))
    for text, vector in questions:
        request = _request(embedder, session_id, text, vector, "all")
        whole.append(_timed(bench, request))
        dense.append(_timed(bench, _dense_alone(request)))
        lexical.append(_timed(bench, replace(request, embedding=None, embedding_model=None)))
        for share, group in SHARES.items():
            request = _dense_alone(_request(embedder, session_id, text, vector, group))
            exact = {row.chunk_id for row in bench.search.search(replace(request, approximate=False)).candidates}
            actual = {row.chunk_id for row in bench.search.search(request).candidates}
            found[share] += len(actual & exact)
            wanted[share] += len(exact)
    return {
        **percentiles(whole),
        "dense": percentiles(dense),
        "lexical": percentiles(lexical),
        "recall@10": {share: round(found[share] / wanted[share], 4) for share in SHARES if wanted[share]},
    }


def _timed(bench: Workbench, request: SearchRequest) -> float:
    started = time.perf_counter()
    bench.search.search(request)
    return time.perf_counter() - started


def _dense_alone(request: SearchRequest) -> SearchRequest:
    return replace(request, terms=(), rows=0)


def _request(embedder: Embedder, session_id: str, text: str, vector: Vector, group: str) -> SearchRequest:
    reader = Identity(subject="reader", tenant=IDENTITY.tenant, groups=(group,))
    return SearchRequest(
        question=Question(text=text, session_id=session_id, identity=reader, filter=Filter(), limit=LIMIT),
        embedding=vector,
        embedding_model=embedder.model_id,
        terms=query_terms(text),
        names=names_in(text),
        depth=50,
        rows=50,
    )
