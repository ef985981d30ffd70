"""The ladder: the same questions, with one part of the pipeline more at each step, on the real pipeline.

A set's files go through the indexing of the product into a Postgres of their own; each step asks it through the
product's search. A step is kept when it raises nDCG@10 over the best step before it that was kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from strata.indexing import PIPELINE_VERSION
from strata.indexing.chunking import Chunker
from strata.indexing.prepare import Prepared, Preparer, embed
from strata.model.access import Identity
from strata.model.asking import Filter, Question
from strata.model.corpus import BlobKey, FileEntry, Layer, PreparedBlob, SourceFile, blob_sha_of
from strata.model.jobs import Counters
from strata.ports import BlobCache, ChunkSearch, CommitRequest, SearchRequest, SessionStore
from strata.retrieval.analyser import query_terms
from strata.retrieval.features import FeatureReranker
from strata.retrieval.filters import DEFAULT_LAYERS
from strata.retrieval.retrieve import Retriever, checked_text
from strata.settings.model import AnsweringSettings, IndexingSettings
from strata_eval.bootstrap import paired_bootstrap
from strata_eval.dataset import JudgedSet, read_set
from strata_eval.judgements import read_given_chunks, read_golden
from strata_eval.scoring import Rows, Scored, score
from strata_eval.vector_cache import CachedEmbedder

GIVEN = "-given"
"""After a set's name: the chunks that the set brings along, in place of our own."""
IDENTITY = Identity(subject="eval", tenant="eval")
ROWS = 50
"""Rows that a step may return: enough for ten files."""
DEPTH = AnsweringSettings().retrieval_depth


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """An indexed set, and how to ask it."""

    search: ChunkSearch
    embedder: CachedEmbedder
    session_id: str
    layers: tuple[Layer, ...] = ()

    def question(self, text: str) -> Question:
        return Question(
            text=checked_text(text[:8_000]),
            session_id=self.session_id,
            identity=IDENTITY,
            filter=Filter(layers=self.layers or DEFAULT_LAYERS),
            limit=ROWS,
        )

    def rows(self, text: str, *, dense: bool, lexical: bool) -> Rows:
        """The plain search: equal weights, no reranker."""
        question = self.question(text)
        return self.search.search(
            SearchRequest(
                question=question,
                embedding=self.embedder.embed_query(question.text) if dense else None,
                embedding_model=self.embedder.model_id if dense else None,
                terms=query_terms(question.text) if lexical else (),
                depth=DEPTH,
            )
        ).candidates

    def retrieved(self, text: str, *, features: bool) -> Rows:
        """The product's retriever."""
        reranker = FeatureReranker(languages=self.embedder.languages) if features else None
        retriever = Retriever(search=self.search, embedder=self.embedder, depth=DEPTH, reranker=reranker)
        return retriever.retrieve(self.question(text)).candidates


Ask = Callable[[Bench, str], Rows]
STEPS: Mapping[str, Ask] = {
    "naive": lambda bench, text: bench.rows(text, dense=True, lexical=False),
    "bm25+rrf": lambda bench, text: bench.rows(text, dense=True, lexical=True),
    "weighing": lambda bench, text: bench.retrieved(text, features=False),
    "features": lambda bench, text: bench.retrieved(text, features=True),
}
"""What each step asks, in the order of the ladder."""
FINAL = "features"
"""The pipeline as it ships."""


def read_any_set(data: Path, name: str) -> JudgedSet:
    judged = read_set(data / name.removesuffix(GIVEN))
    return JudgedSet(name=name, documents=judged.documents, queries=judged.queries, relevant=judged.relevant)


def run_set(
    data: Path,
    name: str,
    *,
    embedder: CachedEmbedder,
    steps: Sequence[str],
    sessions: SessionStore,
    cache: BlobCache,
    search: ChunkSearch,
    layers: Sequence[Layer] = (),
) -> dict[str, Any]:
    """Index a set and climb the ladder; the object that `--json` prints."""
    judged = read_any_set(data, name)
    given = name.endswith(GIVEN)
    golden = read_golden(data / name.removesuffix(GIVEN))
    chunks = index_set(judged, data, embedder=embedder, sessions=sessions, cache=cache)
    bench = Bench(search=search, embedder=embedder, session_id=name, layers=tuple(layers))
    for query in judged.queries:  # so that no step's time has the embedding in it
        embedder.embed_query(checked_text(query.text[:8_000]))
    lexical, _ = _ask(lambda text: bench.rows(text, dense=False, lexical=True), judged)
    arms = {"bm25": score(judged, lexical, golden, given=given)}
    climbed: list[dict[str, Any]] = []
    results: dict[str, Scored] = {}
    kept: Scored | None = None
    for step in [step for step in STEPS if step in steps]:
        found, seconds = _ask(lambda text, ask=STEPS[step]: ask(bench, text), judged)  # type: ignore[misc]
        results[step] = scored = score(judged, found, golden, given=given)
        change = paired_bootstrap(kept.ndcg, scored.ndcg) if kept else None
        verdict = "keep" if change is None or change.mean > 0 else "drop"
        kept = scored if verdict == "keep" else kept
        climbed.append(
            {
                "name": step,
                "verdict": verdict,
                "metrics": dict(scored.metrics),
                "difference": None if change is None else {key: round(x, 4) for key, x in asdict(change).items()},
                "latency_ms": _percentiles(seconds),
            }
        )
    if "naive" in results:
        arms["dense"] = results["naive"]
    final = results.get(FINAL) or results[climbed[-1]["name"]]
    return {
        "set": name,
        "embedder": embedder.model_id,
        "queries": len(judged.queries),
        "files": len(judged.documents),
        "chunks": chunks,
        "arms": {arm: dict(scored.metrics) for arm, scored in arms.items()},
        "envelope": envelope(arms, final),
        "steps": climbed,
        "final": dict(final.metrics),
    }


def envelope(arms: Mapping[str, Scored], final: Scored) -> dict[str, Any]:
    """The pipeline against the better of its own arms in nDCG@10; it holds at -0.005 and a lower bound of -0.03."""
    name = max(arms, key=lambda arm: (arms[arm].metrics["ndcg@10"], arm))
    change = paired_bootstrap(arms[name].ndcg, final.ndcg)
    return {
        "better_arm": name,
        "difference": {key: round(value, 4) for key, value in asdict(change).items()},
        "holds": change.mean >= -0.005 and change.low >= -0.03,
    }


def index_set(
    judged: JudgedSet, data: Path, *, embedder: CachedEmbedder, sessions: SessionStore, cache: BlobCache
) -> int:
    """Parse, cut, embed and commit every file of the set into a session of its name; returns its chunks."""
    sessions.create(
        session_id=judged.name,
        identity=IDENTITY,
        project_id=judged.name,
        embedding_model=embedder.model_id,
        dimension=embedder.dimension,
        pipeline_version=PIPELINE_VERSION,
    )
    sources = [_source(document.path, document.text) for document in judged.documents]
    keys = {source.path: _key(judged.name, source, embedder.model_id) for source in sources}
    if judged.name.endswith(GIVEN):
        given = read_given_chunks(data / judged.name.removesuffix(GIVEN))
        cache.keep(
            [
                PreparedBlob(
                    key=keys[source.path],
                    source=source.content,
                    chunks=tuple(embed(given.get(source.path, []), embedder)),
                )
                for source in sources
            ]
        )
        failed: Mapping[str, str] = {}
    else:
        limits = IndexingSettings()
        chunker = Chunker(counter=embedder, chunk_tokens=limits.chunk_tokens, overlap_tokens=limits.overlap_tokens)
        done = Prepared()
        preparer = Preparer(cache=cache, embedder=embedder, chunker=chunker)
        preparer.prepare([(keys[source.path], source) for source in sources], done, lambda: None)
        failed = done.failed
    upserts = tuple(source.entry for source in sources if source.path not in failed)
    committed = sessions.commit(
        CommitRequest(
            session_id=judged.name,
            job_id=f"eval-{judged.name}",
            seq=1,
            fence=1,
            upserts=upserts,
            keys={entry.path: keys[entry.path] for entry in upserts},
            rights=(),
            deletes=(),
            counters=Counters(indexed_files=len(upserts), failed_files=len(failed)),
        )
    )
    return committed.chunks


@contextmanager
def postgres() -> Iterator[tuple[SessionStore, BlobCache, ChunkSearch]]:
    """The stores on a Postgres of their own, which is gone afterwards."""
    from strata.storage.postgres.cache import PostgresBlobCache
    from strata.storage.postgres.connection import Database
    from strata.storage.postgres.migrate import migrate
    from strata.storage.postgres.search import PostgresSearch
    from strata.storage.postgres.sessions import PostgresSessionStore
    from strata_local.postgres import BundledPostgres

    with TemporaryDirectory(prefix="strata-eval-") as name:
        folder = Path(name)
        server = BundledPostgres(
            folder / "postgres", log_path=folder / "postgres.log", passwords_file=folder / "passwords.json"
        )
        urls = server.start()
        try:
            migrate(urls.owner, passwords=urls.passwords)
            index, query = Database(urls.index), Database(urls.query)
            yield PostgresSessionStore(index), PostgresBlobCache(index), PostgresSearch(query)
            index.close()
            query.close()
        finally:
            server.stop()


def _ask(ask: Callable[[str], Rows], judged: JudgedSet) -> tuple[list[Rows], list[float]]:
    found, seconds = [], []
    for query in judged.queries:
        started = time.perf_counter()
        found.append(ask(query.text))
        seconds.append(time.perf_counter() - started)
    return found, seconds


def _source(path: str, text: str) -> SourceFile:
    content = text.encode("utf-8", "surrogatepass")
    return SourceFile(
        entry=FileEntry(path=path, blob_sha=blob_sha_of(content), size_bytes=len(content)), content=content
    )


def _key(name: str, source: SourceFile, model_id: str) -> BlobKey:
    return BlobKey(
        tenant=IDENTITY.tenant,
        repo_id=name,
        path=source.path,
        blob_sha=source.entry.blob_sha,
        pipeline_version=PIPELINE_VERSION,
        embedding_model=model_id,
    )


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    p50, p95 = np.quantile(seconds, [0.5, 0.95]) * 1000
    return {"p50": round(float(p50), 2), "p95": round(float(p95), 2)}
