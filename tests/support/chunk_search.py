"""`ChunkSearch` in plain Python: a fake for unit tests, and the oracle that the SQL must agree with.

It shares only the parts that have tests of their own (`bm25.scores`, `reciprocal_rank_fusion`, `looks_like_test`);
filters, rights, lists and order are written here a second time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from strata.errors import EmbeddingModelMismatch, SessionNotFound
from strata.model.access import Identity, Session
from strata.model.asking import Candidate, Filter, IndexedText, Retrieved
from strata.model.corpus import Chunk, EmbeddedChunk, Layer, Vector
from strata.ports.search import SearchRequest
from strata.retrieval.bm25 import scores
from strata.retrieval.filters import LAYER_RANKS, has_preferences, looks_like_test
from strata.retrieval.fusion import reciprocal_rank_fusion
from strata.retrieval.statements.fusion import FILE_ROWS, FIRST_SHARE


@dataclass(frozen=True)
class IndexedChunk:
    chunk_id: int
    embedded: EmbeddedChunk
    blob_sha: str
    source: str
    acl: tuple[str, ...] | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)

    @property
    def chunk(self) -> Chunk:
        return self.embedded.chunk


class FakeChunkSearch:
    """Searches `chunks[session_id]`; `average_lengths[session_id][layer]` are the pinned ones."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.chunks: dict[str, list[IndexedChunk]] = {}
        self.average_lengths: dict[str, dict[Layer, float]] = {}
        self.requests: list[SearchRequest] = []

    def search(self, request: SearchRequest) -> Retrieved:
        self.requests.append(request)
        question = request.question
        session = self._session(question.session_id, question.identity)
        if request.embedding is not None and (
            request.embedding_model != session.embedding_model or len(request.embedding) != session.dimension
        ):
            raise EmbeddingModelMismatch
        allowed = {
            chunk.chunk_id: chunk for chunk in self.allowed(question.session_id, question.identity, question.filter)
        }
        tier = {chunk_id: _tier(chunk.chunk.path, question.filter) for chunk_id, chunk in allowed.items()}
        depth = max(request.depth, request.rows, question.limit)
        distances = (
            {}
            if request.embedding is None
            else {
                chunk_id: cosine_distance(chunk.embedded.embedding, request.embedding)
                for chunk_id, chunk in allowed.items()
                if chunk.embedded.embedding is not None
            }
        )
        bm25 = {chunk_id: score for chunk_id, score in self.bm25(request) if chunk_id in allowed}
        drawn = sorted(distances, key=lambda chunk_id: (tier[chunk_id], distances[chunk_id], chunk_id))[:depth]
        dense = sorted(drawn, key=lambda chunk_id: (distances[chunk_id], chunk_id))
        drawn = sorted(bm25, key=lambda chunk_id: (tier[chunk_id], -bm25[chunk_id], chunk_id))[:depth]
        lexical = sorted(drawn, key=lambda chunk_id: (-bm25[chunk_id], chunk_id))
        exact = _exact(request, list(allowed.values()), bm25, tier, depth)
        weights = [request.dense_weight, request.lexical_weight, request.exact_weight]
        fused = dict(reciprocal_rank_fusion([dense, lexical, exact], weights=weights))
        if request.embedding is not None and (
            len(fused) < max(request.rows, question.limit) or has_preferences(question.filter)
        ):
            without = sorted(
                chunk_id
                for chunk_id, chunk in allowed.items()
                if chunk_id not in fused and chunk.embedded.embedding is None
            )
            without.sort(key=lambda chunk_id: tier[chunk_id])
            fused.update(dict.fromkeys(without[: max(request.rows, question.limit)], 0.0))
        best = sorted(fused, key=lambda chunk_id: (tier[chunk_id], -fused[chunk_id], chunk_id))
        rows_so_far = [[allowed[other].chunk.path for other in best[: place + 1]] for place in range(len(best))]
        rows = max(request.rows, question.limit)
        held_back = {
            chunk_id
            for place, (chunk_id, paths) in enumerate(zip(best, rows_so_far, strict=True))
            if place >= int(FIRST_SHARE * rows) and paths.count(paths[-1]) > FILE_ROWS
        }
        best.sort(key=lambda chunk_id: (tier[chunk_id], chunk_id in held_back))
        best = best[:rows]
        best.sort(key=lambda chunk_id: (tier[chunk_id], -fused[chunk_id], chunk_id))
        return Retrieved(
            candidates=tuple(
                _candidate(
                    allowed[chunk_id],
                    score=fused[chunk_id],
                    dense_rank=_rank(dense, chunk_id),
                    distance=distances.get(chunk_id),
                    lexical_rank=_rank(lexical, chunk_id),
                    bm25=bm25.get(chunk_id, 0.0) if request.terms else None,
                    exact_rank=_rank(exact, chunk_id),
                    prefer_bonus=-tier[chunk_id][0],
                    test_penalty=tier[chunk_id][1],
                )
                for chunk_id in best
            ),
            generation=session.generation,
            embedding_model=session.embedding_model,
            best_distance=min((distances[chunk_id] for chunk_id in dense), default=None) if best else None,
            greatest_bm25=max((bm25[chunk_id] for chunk_id in lexical), default=None) if best else None,
        )

    def files(
        self, session_id: str, identity: Identity, paths: Sequence[str], *, layers: Sequence[Layer] = (), limit: int
    ) -> Retrieved:
        session = self._session(session_id, identity)
        found = [
            chunk
            for chunk in self.allowed(session_id, identity, Filter(layers=tuple(layers)))
            if chunk.chunk.path in paths
        ]
        found.sort(key=lambda row: (paths.index(row.chunk.path), row.chunk.layer, row.chunk.ordinal))
        return Retrieved(
            candidates=tuple(_candidate(chunk, score=0.0) for chunk in found[:limit]),
            generation=session.generation,
            embedding_model=session.embedding_model,
        )

    def generation(self, session_id: str, identity: Identity) -> tuple[int, str]:
        session = self._session(session_id, identity)
        return session.generation, session.embedding_model

    def sources(self, session_id: str, identity: Identity, chunk_ids: Sequence[int]) -> dict[int, str]:
        session = self.sessions.get(session_id)
        if session is None or not session.readable_by(identity):
            return {}
        return {
            chunk.chunk_id: chunk.source
            for chunk in self.allowed(session_id, identity, Filter())
            if chunk.chunk_id in chunk_ids
        }

    def file_page(
        self, session_id: str, identity: Identity, *, after: str, limit: int, most_bytes: int
    ) -> list[IndexedText]:
        self._session(session_id, identity)
        files = {chunk.chunk.path: chunk for chunk in self.allowed(session_id, identity, Filter())}
        page: list[IndexedText] = []
        total = 0
        for path in sorted(path for path in files if path > after)[:limit]:
            if total >= most_bytes:
                break
            page.append(IndexedText(path=path, blob_sha=files[path].blob_sha, text=files[path].source))
            total += len(files[path].source.encode("utf-8", "replace"))
        return page

    def allowed(self, session_id: str, identity: Identity, filter: Filter) -> list[IndexedChunk]:
        """What this caller may find with this filter in a session that is readable."""
        return [
            chunk
            for chunk in self.chunks.get(session_id, [])
            if (chunk.acl is None or set(chunk.acl) & set(identity.principals)) and _passes(chunk.chunk, filter)
        ]

    def bm25(self, request: SearchRequest) -> list[tuple[int, float]]:
        """Statistics come from every chunk of the layers asked for, whoever may read it."""
        session_id, layers = request.question.session_id, request.question.filter.layers
        covered = [chunk for chunk in self.chunks.get(session_id, []) if not layers or chunk.chunk.layer in layers]
        averages = self.average_lengths.get(session_id, {})
        return scores(
            request.terms,
            {chunk.chunk_id: chunk.embedded.terms.by_term for chunk in covered},
            {chunk.chunk_id: averages[chunk.chunk.layer] for chunk in covered},
            request.leading_terms,
        )

    def _session(self, session_id: str, identity: Identity) -> Session:
        session = self.sessions.get(session_id)
        if session is None or not session.readable_by(identity):
            raise SessionNotFound
        return session


def cosine_distance(one: Vector, other: Vector) -> float:
    """As pgvector's halfvec has it: both rounded to half precision."""
    first, second = (vector.astype(np.float16).astype(np.float64) for vector in (one, other))
    return 1.0 - float(first @ second / np.sqrt((first @ first) * (second @ second)))


def like(pattern: str, path: str) -> bool:
    r"""SQL's LIKE.

    >>> like(r"a\_%", "a_b/c"), like(r"a\_%", "axb"), like("a_", "ab"), like("a_", "abc")
    (True, False, True, False)
    """
    parts = [
        re.escape(match[0][-1]) if match[0] not in ("%", "_") else {"%": ".*", "_": "."}[match[0]]
        for match in re.finditer(r"\\.|.", pattern, re.DOTALL)
    ]
    return re.fullmatch("".join(parts), path, re.DOTALL) is not None


def _passes(chunk: Chunk, filter: Filter) -> bool:
    path = chunk.path
    if filter.layers and chunk.layer not in filter.layers:
        return False
    if filter.path_prefixes and not path.startswith(filter.path_prefixes):
        return False
    if path.startswith(filter.exclude_path_prefixes):
        return False
    return not any(like(pattern, path) for pattern in filter.exclude_like_patterns)


def _tier(path: str, filter: Filter) -> tuple[int, int]:
    preferred = path.startswith(filter.prefer_path_prefixes) or any(
        like(pattern, path) for pattern in filter.prefer_like_patterns
    )
    return -int(preferred), int(filter.prefer_non_tests and looks_like_test(path))


def _exact(
    request: SearchRequest,
    allowed: Sequence[IndexedChunk],
    bm25: Mapping[int, float],
    tier: Mapping[int, tuple[int, int]],
    depth: int,
) -> list[int]:
    """Chunks that hold a name or phrase: definitions first, then by how many they hold, then by BM25."""
    if not request.exact_weight:
        return []
    names = [name.text.lower() for name in request.names.names]
    name_terms = {name.term for name in request.names.names}
    places: dict[int, tuple[Any, ...]] = {}
    for row in allowed if request.terms else ():
        terms, chunk = row.embedded.terms.by_term.keys(), row.chunk
        if not (name_terms & terms or any(set(phrase.terms) <= terms for phrase in request.names.phrases)):
            continue
        text = " ".join(chunk.content.split()).lower()
        held = len(name_terms & terms) + sum(
            set(phrase.terms) <= terms and phrase.text.lower() in text for phrase in request.names.phrases
        )
        path, title, qualified = (
            value.lower() for value in (chunk.path, chunk.title, str(row.metadata.get("qualified_name", "")))
        )
        defines = any(
            name in (path, title, qualified) or path.endswith(f"/{name}") or title.endswith(f".{name}")
            for name in names
        )
        if held:
            places[row.chunk_id] = (not defines, -held, -bm25.get(row.chunk_id, 0.0), row.chunk_id)
    drawn = sorted(places, key=lambda chunk_id: (tier[chunk_id], *places[chunk_id]))[:depth]
    return sorted(drawn, key=lambda chunk_id: places[chunk_id])


def _rank(ranking: Sequence[int], chunk_id: int) -> int | None:
    return ranking.index(chunk_id) + 1 if chunk_id in ranking else None


def _candidate(
    row: IndexedChunk,
    *,
    score: float,
    dense_rank: int | None = None,
    distance: float | None = None,
    lexical_rank: int | None = None,
    bm25: float | None = None,
    exact_rank: int | None = None,
    prefer_bonus: int = 0,
    test_penalty: int = 0,
) -> Candidate:
    chunk = row.chunk
    return Candidate(
        chunk_id=row.chunk_id,
        path=chunk.path,
        layer=chunk.layer,
        ordinal=chunk.ordinal,
        title=chunk.title,
        content=chunk.content,
        span=chunk.span,
        blob_sha=row.blob_sha,
        metadata=row.metadata,
        score=score,
        dense_rank=dense_rank,
        distance=distance,
        lexical_rank=lexical_rank,
        bm25=bm25,
        prefer_bonus=prefer_bonus,
        test_penalty=test_penalty,
        layer_rank=LAYER_RANKS[chunk.layer],
        exact_rank=exact_rank,
    )
