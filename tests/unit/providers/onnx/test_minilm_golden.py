"""Our graph computes what the published weights mean: against a plain numpy forward pass of the same weights."""

from __future__ import annotations

from functools import cache

import numpy as np
from safetensors.numpy import load_file

from strata.model.corpus import Vectors
from strata_local.models import FP32_DIRECTORY, WEIGHTS_FILE
from tests.support.bert_reference import ReferenceBert
from tests.support.minilm import minilm, minilm_directory

TEXTS = (
    "Who may read the session after its owner has left the group?",
    "ok",
    "Commit the job under its fence; a stale holder writes nothing and leaves the older index in place.",
    "Как восстановить индекс после сбоя? Задание выполняется заново, а читатели видят прежние данные.",
    "def renew(self, held: Lease) -> Lease:\n    if held.fence < self.fence:\n        raise LockLost\n    return held",
    "SELECT chunk_id FROM rag_chunk_vectors ORDER BY embedding <=> $1 LIMIT 50;",
    "café naïve ﬁle №5 — 3,14 ≠ 2,72 (ünïcödé) 漢字 🙂",
    "The quick brown fox jumps over the lazy dog. " * 9,
)


@cache
def reference_vectors() -> Vectors:
    reference = ReferenceBert(load_file(minilm_directory() / FP32_DIRECTORY / WEIGHTS_FILE))
    vectors = [reference.sentence_vector(sequence.tolist()) for sequence in minilm()._sequences(TEXTS)]
    return np.stack(vectors).astype(np.float32)


def cosines(vectors: Vectors) -> list[float]:
    found: list[float] = (vectors * reference_vectors()).sum(axis=1).tolist()
    return found


def test_the_fp32_graph_agrees_with_the_reference() -> None:
    assert min(cosines(minilm(fp32=True).embed_documents(TEXTS))) > 0.99999


def test_the_int8_graph_is_near_the_reference() -> None:
    found = cosines(minilm().embed_documents(TEXTS))
    assert np.mean(found) > 0.997
    assert min(found) > 0.985  # "ok": one token, nothing to average over


def test_what_means_alike_is_near() -> None:
    question = minilm().embed_query("python file close method")
    near, far = minilm().embed_documents(["How do I close a file in Python?", "Bananas are rich in potassium."])
    assert float(near @ question) > 0.6
    assert float(far @ question) < 0.2
