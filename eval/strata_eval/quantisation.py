"""What rounding the embedding model to int8 costs in nDCG@10, and what it gains in speed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from strata.providers.onnx.description import MODEL_FILE
from strata.providers.onnx.embedder import OnnxEmbedder
from strata_eval.dataset import JudgedSet
from strata_eval.dense import cached_vectors, rankings, windows
from strata_eval.metrics import hit, ndcg, precision, reciprocal_rank
from strata_eval.resampling import Difference, paired_bootstrap

GREATEST_LOSS = 0.005
SPEED_TEXTS = 128
SPEED_TOKENS = 194
"""The length that figures are given for; a code base's chunks are about that long."""
SPEED_ROUNDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprinted:
    """An embedder and the hash of its graph: vectors of another graph are never taken from the cache."""

    embedder: OnnxEmbedder
    fingerprint: str

    @classmethod
    def load(cls, model_directory: Path, *, threads: int = 0) -> Fingerprinted:
        graph = (model_directory / MODEL_FILE).read_bytes()
        return cls(
            embedder=OnnxEmbedder.load(model_directory, threads=threads),
            fingerprint=hashlib.sha256(graph).hexdigest(),
        )


def run_quantisation(
    sets: Sequence[JudgedSet], *, int8: Fingerprinted, fp32: Fingerprinted, cache: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    """Score both models on the same texts. `holds` says whether no set loses `GREATEST_LOSS` of nDCG@10 or more."""
    measured: list[dict[str, Any]] = []
    for judged in sets:
        say(f"{judged.name}: {len(judged.documents)} documents, {len(judged.queries)} queries")
        measured.append(_compare(judged, int8=int8, fp32=fp32, cache=cache))
    everything = [
        scores for found in measured for scores in zip(found["fp32_scores"], found["int8_scores"], strict=True)
    ]
    overall = paired_bootstrap([before for before, _ in everything], [after for _, after in everything])
    for found in measured:
        del found["fp32_scores"], found["int8_scores"]
    return {
        "models": {"fp32": fp32.embedder.model_id, "int8": int8.embedder.model_id},
        "greatest_loss_allowed": GREATEST_LOSS,
        "holds": all(-found["difference"]["mean"] < GREATEST_LOSS for found in measured),
        "all_queries": _rounded(overall),
        "sets": measured,
    }


def _compare(judged: JudgedSet, *, int8: Fingerprinted, fp32: Fingerprinted, cache: Path) -> dict[str, Any]:
    cut = windows(judged, fp32.embedder)
    texts = [window.text for window in cut]
    questions = [query.text for query in judged.queries]
    vectors = {}
    scores = {}
    figures = {}
    for name, model in (("fp32", fp32), ("int8", int8)):
        documents, queries = (
            cached_vectors(kind, model.embedder, fingerprint=model.fingerprint, cache=cache)
            for kind in (texts, questions)
        )
        vectors[name] = documents
        ranked = list(zip(rankings(judged, cut, documents, queries), judged.queries, strict=True))
        scores[name] = [ndcg(ranking, judged.relevant[query.query_id]) for ranking, query in ranked]
        figures[name] = {
            "ndcg_at_10": _mean(scores[name]),
            "hit_at_10": _mean([hit(ranking, judged.relevant[query.query_id]) for ranking, query in ranked]),
            "mrr_at_10": _mean(
                [reciprocal_rank(ranking, judged.relevant[query.query_id]) for ranking, query in ranked]
            ),
            "precision_at_5": _mean([precision(ranking, judged.relevant[query.query_id]) for ranking, query in ranked]),
        }
    cosine = np.einsum("ij,ij->i", vectors["fp32"], vectors["int8"])
    return {
        "set": judged.name,
        "documents": len(judged.documents),
        "windows": len(cut),
        "queries": len(judged.queries),
        **figures,
        "difference": _rounded(paired_bootstrap(scores["fp32"], scores["int8"])),
        "cosine": {"mean": round(float(cosine.mean()), 5), "least": round(float(cosine.min()), 5)},
        "fp32_scores": scores["fp32"],
        "int8_scores": scores["int8"],
    }


def run_speed(texts: Sequence[str], *, int8: OnnxEmbedder, fp32: OnnxEmbedder) -> dict[str, Any]:
    """Chunks a second of both models on the same texts, taking turns, so that a busy machine slows both alike.

    Of the texts those are taken that are nearest to `SPEED_TOKENS` long. The best of four rounds counts.
    `cpu_s` figures count the processor's time and not the clock's: they do not depend on what else runs.
    """
    lengths = [min(count, fp32.max_tokens) for count in fp32.count(texts)]
    nearest = sorted(range(len(texts)), key=lambda number: abs(lengths[number] - SPEED_TOKENS))[:SPEED_TEXTS]
    some = [texts[number] for number in nearest]
    tokens = [lengths[number] for number in nearest]
    clock: dict[str, list[float]] = {"fp32": [], "int8": []}
    processor: dict[str, list[float]] = {"fp32": [], "int8": []}
    for turn in range(SPEED_ROUNDS + 1):
        for name, embedder in (("fp32", fp32), ("int8", int8)):
            wall, used = time.perf_counter(), time.process_time()
            embedder.embed_documents(some)
            if turn:  # the first round warms up
                clock[name].append(time.perf_counter() - wall)
                processor[name].append(time.process_time() - used)
    found = {
        name: {
            "chunks_per_s": round(len(some) / min(clock[name]), 1),
            "chunks_per_cpu_s": round(len(some) / min(processor[name]), 1),
        }
        for name in clock
    }
    return {
        "cores": os.cpu_count(),
        "threads": int8.threads,
        "texts": len(some),
        "mean_tokens": round(float(np.mean(tokens)), 1),
        **found,
        "int8_over_fp32": round(found["int8"]["chunks_per_cpu_s"] / found["fp32"]["chunks_per_cpu_s"], 2),
    }


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4)


def _rounded(difference: Difference) -> dict[str, float]:
    return {name: round(value, 5) for name, value in asdict(difference).items()}
