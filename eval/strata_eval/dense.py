"""Dense search over a judged set, in memory: the documents' windows are embedded, a document ranks by its best one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from strata.model.corpus import Vectors
from strata.ports.embedding import Embedder, TokenCounter
from strata_eval.dataset import JudgedSet

DEPTH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    path: str
    text: str


def windows(judged: JudgedSet, counter: TokenCounter) -> list[Window]:
    """Each document in pieces of whole lines that fit the model's limit; a longer line is one piece (and gets cut).

    The title stands over the text only where the text does not begin with it already. No piece is blank.
    """
    cut: list[Window] = []
    for document in judged.documents:
        start = document.text.lstrip("# \n")
        text = document.text if start.startswith(document.title) else f"{document.title}\n{document.text}"
        piece: list[str] = []
        tokens = 0
        lines = text.splitlines(keepends=True)
        for line, count in zip(lines, counter.count(lines), strict=True):
            if piece and tokens + count > counter.max_tokens:
                cut.append(Window(path=document.path, text="".join(piece)))
                piece, tokens = [], 0
            piece.append(line)
            tokens += count
        cut.append(Window(path=document.path, text="".join(piece)))
    return [window for window in cut if window.text.strip()]


def cached_vectors(texts: Sequence[str], embedder: Embedder, *, fingerprint: str, cache: Path) -> Vectors:
    """The texts' vectors, from `cache` when the same model (by `fingerprint`) has embedded the same texts before."""
    digest = hashlib.sha256(fingerprint.encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    path = cache / f"{embedder.model_id}-{digest.hexdigest()[:24]}.npy"
    if path.is_file():
        known: Vectors = np.load(path)
        return known
    vectors = embedder.embed_documents(texts)
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished.npy")
    np.save(unfinished, vectors)
    unfinished.replace(path)
    return vectors


def rankings(judged: JudgedSet, cut: Sequence[Window], documents: Vectors, queries: Vectors) -> list[list[str]]:
    """For each query the ten best paths, best first; of equal ones the one that comes first in the corpus."""
    order = {document.path: number for number, document in enumerate(judged.documents)}
    owner = np.array([order[window.path] for window in cut])
    paths = [document.path for document in judged.documents]
    ranked: list[list[str]] = []
    for query in queries:
        best = np.full(len(paths), -np.inf, dtype=np.float32)
        np.maximum.at(best, owner, documents @ query)
        top = np.argsort(-best, kind="stable")[:DEPTH]
        ranked.append([paths[number] for number in top])
    return ranked
