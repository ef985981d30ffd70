"""The ladder: the same questions, with one part of the pipeline more at each step, on the real pipeline.

A set's files go through the indexing of the product into a Postgres of their own; each step asks it through the
product's search. A step is kept when it is shown to raise nDCG@10 over the last step before it that was kept: when all
of the 95 % bounds of the gain are above 0. What does not show a gain is dropped, whatever its mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from strata.errors import InvalidQuery, StrataError
from strata.model.corpus import Layer
from strata.ports.blobs import BlobCache
from strata.ports.search import ChunkSearch
from strata.ports.sessions import SessionStore
from strata.retrieval.retrieve import checked_text
from strata_eval.dataset import JudgedSet
from strata_eval.indexed_sets import folder_of, index_set, read_any_set
from strata_eval.judgements import read_golden
from strata_eval.optional_models import OptionalModels
from strata_eval.resampling import Difference, paired_bootstrap
from strata_eval.scoring import Rows, Scored, score
from strata_eval.steps import FINAL, OPTIONAL, STEPS, Ask, Bench, Options, with_step
from strata_eval.vector_cache import CachedEmbedder

T = TypeVar("T")
SHOWN_NOTES = 3
"""Of what went wrong at a step, each kind once."""


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
    models: OptionalModels | None = None,
) -> dict[str, Any]:
    """Index a set and climb the ladder; the object that `--json` prints.

    A step without its model is under `skipped`, with the reason; a step's `notes` say what its model failed at.
    `final` is the pipeline as it ships, whatever steps are asked for.
    """
    models = models or OptionalModels()
    judged = read_any_set(data, name)
    golden = read_golden(folder_of(data, name))
    indexed = index_set(judged, data, embedder=embedder, sessions=sessions, cache=cache)
    bench = Bench(search=search, embedder=embedder, name=name, layers=tuple(layers), models=models)
    for query in judged.queries:  # so that no step's time has the embedding in it
        _answered(lambda text: embedder.embed_query(checked_text(text)), query.text[:8_000])

    def scored(found: Sequence[Rows]) -> Scored:
        return score(judged, found, golden, counter=embedder)

    lexical, _ = _ask(lambda text: bench.rows(text, dense=False, lexical=True), judged, models)
    arms = {"bm25": scored(lexical)}
    climbed: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    results: dict[str, Scored] = {}
    kept: Scored | None = None
    options = Options()
    for step in [step for step in (*STEPS, *OPTIONAL) if step in steps]:
        if step in OPTIONAL and (reason := models.missing(step)):
            skipped.append({"name": step, "reason": reason})
            continue
        if step == "preamble":
            preambler = models.preambler(embedder)
            try:
                index_set(judged, data, embedder=embedder, sessions=sessions, cache=cache, preambler=preambler)
            except StrataError as error:  # a model that is away must not cost the steps before
                skipped.append({"name": step, "reason": error.message.removesuffix(".")})
                continue
        bench.notes.clear()
        found, seconds = _ask(partial(_asker(step, options), bench), judged, models)
        results[step] = now = scored(found)
        change = paired_bootstrap(kept.ndcg, now.ndcg) if kept else None
        verdict = verdict_on(change)
        if verdict == "keep":
            kept = now
            options = with_step(options, step) if step in OPTIONAL else options
        climbed.append(
            {
                "name": step,
                "verdict": verdict,
                "metrics": dict(now.metrics),
                "difference": change and _rounded(change),
                "latency_ms": _percentiles(seconds),
                "cost": {**asdict(models.used()), "failed_questions": len(bench.notes)},
                "notes": list(dict.fromkeys(bench.notes))[:SHOWN_NOTES],
            }
        )
    for step in ("naive", FINAL):
        if step not in results:
            results[step] = scored(_ask(partial(STEPS[step], bench), judged, models)[0])
    arms["dense"], final = results["naive"], results[FINAL]
    return {
        "set": name,
        "embedder": embedder.model_id,
        "queries": len(judged.queries),
        "unjudged": judged.unjudged,
        "unanswerable": judged.unanswerable,
        "files": len(judged.documents),
        "failed": dict(indexed.failed),
        "chunks": indexed.chunks,
        "arms": {arm: dict(of.metrics) for arm, of in arms.items()},
        "envelope": envelope(arms, final),
        "steps": climbed,
        "skipped": skipped,
        "final": dict(final.metrics),
    }


def verdict_on(change: Difference | None) -> str:
    """`keep` a first step, and one whose gain is above 0 with 95 % confidence; `drop` any other."""
    return "keep" if change is None or change.low > 0 else "drop"


def _asker(step: str, kept: Options) -> Ask:
    """What the step asks; an optional one adds its part to those that were kept."""
    if step in STEPS:
        return STEPS[step]
    options = with_step(kept, step)
    return lambda bench, text: bench.retrieved(text, features=True, options=options)


def envelope(arms: Mapping[str, Scored], final: Scored) -> dict[str, Any]:
    """The pipeline against the better of its own arms in nDCG@10; it holds at -0.005 and a lower bound of -0.03."""
    name = max(arms, key=lambda arm: (arms[arm].metrics["ndcg@10"], arm))
    change = paired_bootstrap(arms[name].ndcg, final.ndcg)
    return {
        "better_arm": name,
        "difference": _rounded(change),
        "holds": change.mean >= -0.005 and change.low >= -0.03,
    }


def _rounded(change: Difference) -> dict[str, float]:
    return {name: round(value, 4) for name, value in asdict(change).items()}


def _ask(ask: Callable[[str], Rows], judged: JudgedSet, models: OptionalModels) -> tuple[list[Rows], list[float]]:
    """The rows for each query, and the seconds that they took; what a kept reply saved counts as if it had been asked
    for. What a search refuses to look for (a query without a word) finds nothing.
    """
    found, seconds = [], []
    models.saved_s()  # of what was done before, say writing preambles
    for query in judged.queries:
        started = time.perf_counter()
        found.append(_answered(ask, query.text) or ())
        seconds.append(time.perf_counter() - started + models.saved_s())
    return found, seconds


def _answered(ask: Callable[[str], T], text: str) -> T | None:
    try:
        return ask(text)
    except InvalidQuery:
        return None


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    p50, p95 = np.quantile(seconds, [0.5, 0.95]) * 1000
    return {"p50": round(float(p50), 2), "p95": round(float(p95), 2)}
