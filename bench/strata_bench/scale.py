"""How search grows with an index: its time at each size, and what the approximate plan finds of the exact one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from strata.model.access import Identity
from strata.model.asking import Filter, Question
from strata.model.corpus import EmbeddedChunk, Vector
from strata.ports.embedding import Embedder
from strata.ports.search import SearchRequest
from strata.retrieval.analyser import query_terms
from strata.retrieval.naming import names_in
from strata.storage.postgres.connection import connect
from strata_bench.bulk import Base, BulkSession
from strata_bench.copies import GrownSession, embedded_chunks
from strata_bench.corpus import Corpus
from strata_bench.processor import own_cpu_s, server_cpu_s
from strata_bench.query import LIMIT, percentiles
from strata_bench.workbench import IDENTITY, Workbench, make_session

BASE_CHUNKS = 3_000
MAX_QUESTIONS = 50
RECALL_QUESTIONS = 20
"""Each is compared with a look at every row, for each share of readers."""
LINE_CHARACTERS = 120
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
    bulk: bool,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """One session grown to each of the sizes, then (if `sessions`) as many of 1,000 chunks each.

    Rows are written by commits, or (`bulk`) by COPY; at the greatest size come `churn` commits of three files.
    Times are in milliseconds, of a whole search with its rows read, without the embedding of the question;
    `first_lines` are those of the questions' first lines alone, as short as people type.
    """
    say(f"embedding about {BASE_CHUNKS} chunks of {corpus.name}")
    base = embedded_chunks(corpus, embedder, at_most=BASE_CHUNKS)
    questions = [(text, embedder.embed_query(text)) for text in corpus.questions if query_terms(text)][:MAX_QUESTIONS]
    arrays = None
    if bulk:
        with connect(bench.owner_url) as connection:
            arrays = Base.of(base, connection)
    lines = [(line, embedder.embed_query(line)) for line in _first_lines(corpus.questions)]
    one = _grown(bench, embedder, base, "one", arrays)
    grown = []
    for size in sorted(sizes):
        started = time.perf_counter()
        rows = one.grow(size)
        seconds = time.perf_counter() - started
        if size == max(sizes):
            one.churn(churn)
        say(f"{rows} chunks in one session")
        measured = _measured(bench, embedder, "one", questions, lines)
        say(f"p50 {measured['p50_ms']} ms, p95 {measured['p95_ms']} ms")
        grown.append({"rows": rows, "grow_s": round(seconds, 1), **measured})
    many = None
    if sessions:
        for number in range(sessions):
            _grown(bench, embedder, base, f"many-{number}", arrays).grow(1_000)
            if number and number % 100 == 0:
                say(f"{number} of {sessions} sessions")
        say(f"{sessions} sessions of 1,000 chunks")
        many = {"sessions": sessions, **_measured(bench, embedder, f"many-{sessions // 2}", questions, lines)}
    return {
        "corpus": corpus.name,
        "questions": len(questions),
        "churn": churn,
        "written_by": "copy" if bulk else "commits",
        "sizes": grown,
        "many_sessions": many,
    }


def _grown(
    bench: Workbench, embedder: Embedder, base: Sequence[EmbeddedChunk], name: str, arrays: Base | None
) -> GrownSession | BulkSession:
    make_session(bench.sessions, name, embedder)
    grown = GrownSession(
        session_id=name,
        tenant=IDENTITY.tenant,
        base=base,
        cache=bench.cache,
        sessions=bench.sessions,
        embedding_model=embedder.model_id,
    )
    return BulkSession(grown=grown, base=arrays, url=bench.owner_url) if arrays else grown


def _first_lines(questions: Sequence[str]) -> list[str]:
    lines = [text.strip().splitlines()[0][:LINE_CHARACTERS] for text in questions if text.strip()]
    return [line for line in lines if query_terms(line)][:MAX_QUESTIONS]


def _measured(
    bench: Workbench,
    embedder: Embedder,
    session_id: str,
    questions: Sequence[tuple[str, Vector]],
    lines: Sequence[tuple[str, Vector]],
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
    own_s, server_s = own_cpu_s(), server_cpu_s(bench.postgres_pid)
    for text, vector in questions:
        bench.search.search(_request(embedder, session_id, text, vector, "all"))
    own_s, server_s = own_cpu_s() - own_s, server_cpu_s(bench.postgres_pid) - server_s
    short = [_timed(bench, _request(embedder, session_id, text, vector, "all")) for text, vector in lines]
    for text, vector in questions[:RECALL_QUESTIONS]:
        for share, group in SHARES.items():
            request = _dense_alone(_request(embedder, session_id, text, vector, group))
            exact = {row.chunk_id for row in bench.search.search(replace(request, approximate=False)).candidates}
            actual = {row.chunk_id for row in bench.search.search(request).candidates}
            found[share] += len(actual & exact)
            wanted[share] += len(exact)
    return {
        **percentiles(whole),
        "cpu_ms": {
            "here": round(own_s / len(questions) * 1000, 2),
            "server": round(server_s / len(questions) * 1000, 2),
        },
        "first_lines": percentiles(short),
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
