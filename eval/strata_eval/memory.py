"""`MemorySearch`: the search statement's lists and fusion in numpy, for experiments and training in seconds.

It returns what `PostgresSearch` returns from its dense and lexical lists for a session without restricted files (tested
against it), so that whatever ranks or measures candidates can't tell the two apart. Rights, filters but for layers, and
the lists of names and of neighbours are not its business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strata.model.asking import Candidate, Retrieved
from strata.model.corpus import Chunk, Layer, Vectors
from strata.ports.search import SearchRequest
from strata.retrieval.analyser import analyse
from strata.retrieval.bm25 import K1, LEADING_WEIGHT, B, idf
from strata.retrieval.filters import LAYER_RANKS, looks_like_test
from strata.retrieval.fusion import RANK_CONSTANT
from strata.retrieval.statements.fusion import FILE_ROWS, FIRST_SHARE

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Postings:
    chunks: Numbers
    weights: Floats


class MemorySearch:
    """Searches the given chunks; `vectors[i]` belongs to `chunks[i]`, whose id is i + 1."""

    def __init__(self, chunks: Sequence[Chunk], vectors: Vectors, *, embedding_model: str) -> None:
        self.chunks = list(chunks)
        self.vectors = vectors.astype(np.float16).astype(np.float32)
        self.embedding_model = embedding_model
        numbers_of = {path: number for number, path in enumerate(dict.fromkeys(chunk.path for chunk in chunks))}
        self._files = np.array([numbers_of[chunk.path] for chunk in chunks], dtype=np.int64)
        counts = [Counter(analyse(chunk.embedded_text)) for chunk in chunks]
        lengths = np.array([count.total() for count in counts], dtype=np.float64)
        layers = np.array([chunk.layer.value for chunk in chunks])
        averages = np.ones(len(chunks))
        for layer in set(layers):
            averages[layers == layer] = lengths[layers == layer].mean()
        norms = K1 * (1 - B + B * lengths / np.maximum(averages, 1e-9))
        postings: dict[str, tuple[list[int], list[int]]] = {}
        for number, count in enumerate(counts):
            for term, occurrences in count.items():
                numbers, frequencies = postings.setdefault(term, ([], []))
                numbers.append(number)
                frequencies.append(occurrences)
        self._postings = {}
        for term, (numbers, frequencies) in postings.items():
            ids, occurs = np.array(numbers), np.array(frequencies, dtype=np.float64)
            self._postings[term] = _Postings(ids, occurs * (K1 + 1) / (occurs + norms[ids]))

    def bm25(self, terms: Sequence[str], layers: Sequence[Layer] = (), leading: Collection[str] = ()) -> Floats:
        """The score of every chunk; 0 where it holds none of the terms."""
        covered = self._covered(layers)
        scores = np.zeros(len(self.chunks))
        for term in dict.fromkeys(terms):
            if posting := self._postings.get(term):
                inside = covered[posting.chunks]
                rarity = idf(int(covered.sum()), int(inside.sum())) * (LEADING_WEIGHT if term in leading else 1.0)
                scores[posting.chunks[inside]] += posting.weights[inside] * rarity
        return scores

    def search(self, request: SearchRequest) -> Retrieved:
        layers = request.question.filter.layers
        covered = self._covered(layers)
        depth = max(request.depth, request.rows, request.question.limit)
        distances, bm25 = None, None
        dense, lexical = np.array([], dtype=np.int64), np.array([], dtype=np.int64)
        if request.embedding is not None:
            distances = 1.0 - (self.vectors @ request.embedding.astype(np.float32)).astype(np.float64)
            distances[~covered] = np.inf
            dense = _first(distances, min(depth, int(covered.sum())))
        if request.terms:
            bm25 = self.bm25(request.terms, layers, request.leading_terms)
            lexical = _first(-bm25, min(depth, int((bm25 > 0).sum())))
        ranks = [{int(chunk): rank for rank, chunk in enumerate(ranking, start=1)} for ranking in (dense, lexical)]
        scores = {
            chunk: sum(
                weight / (RANK_CONSTANT + ranked[chunk])
                for weight, ranked in zip((request.dense_weight, request.lexical_weight), ranks, strict=True)
                if chunk in ranked
            )
            for chunk in ranks[0].keys() | ranks[1].keys()
        }
        best = self._best(scores, max(request.rows, request.question.limit))
        return Retrieved(
            candidates=tuple(
                Candidate(
                    chunk_id=number + 1,
                    path=chunk.path,
                    layer=chunk.layer,
                    ordinal=chunk.ordinal,
                    title=chunk.title,
                    content=chunk.content,
                    span=chunk.span,
                    blob_sha="",
                    metadata=chunk.metadata,
                    score=scores[number],
                    dense_rank=ranks[0].get(number),
                    distance=None if distances is None else float(distances[number]),
                    lexical_rank=ranks[1].get(number),
                    bm25=None if bm25 is None else float(bm25[number]),
                    test_penalty=int(request.question.filter.prefer_non_tests and looks_like_test(chunk.path)),
                    layer_rank=LAYER_RANKS[chunk.layer],
                )
                for number in best
                for chunk in (self.chunks[number],)
            ),
            generation=1,
            embedding_model=self.embedding_model,
            best_distance=float(distances[dense[0]]) if distances is not None and len(dense) else None,
            greatest_bm25=float(bm25[lexical[0]]) if bm25 is not None and len(lexical) else None,
        )

    def _best(self, scores: Mapping[int, float], count: int) -> list[int]:
        """The first share of the best chunks, then those of files that have few among them before others."""
        of_file: Counter[str] = Counter()
        within: list[int] = []
        beyond: list[int] = []
        for place, chunk in enumerate(sorted(scores, key=lambda chunk: (-scores[chunk], chunk))):
            path = self.chunks[chunk].path
            of_file[path] += 1
            first = place < int(FIRST_SHARE * count)
            (within if first or of_file[path] <= FILE_ROWS else beyond).append(chunk)
        return sorted([*within, *beyond][:count], key=lambda chunk: (-scores[chunk], chunk))

    def _covered(self, layers: Sequence[Layer]) -> NDArray[np.bool_]:
        if not layers:
            return np.ones(len(self.chunks), dtype=bool)
        return np.array([chunk.layer in layers for chunk in self.chunks], dtype=bool)


def _first(costs: Floats, count: int) -> Numbers:
    """The `count` smallest, in order, ties by number."""
    if count <= 0:
        return np.array([], dtype=np.int64)
    if count < len(costs):
        limit = np.partition(costs, count - 1)[count - 1]
        near = np.flatnonzero(costs <= limit)
    else:
        near = np.arange(len(costs))
    return near[np.argsort(costs[near], kind="stable")][:count]
