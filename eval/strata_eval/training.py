"""Learns the weights of `strata.retrieval.features`, and says what they are worth on sets that they have not seen.

A question's loss is the cross-entropy of its right file among the files that were found (each by its best row), and,
where the set knows the right lines, of the right rows among the rows. Sets count alike, whatever their number of
questions. Weights of evidence are kept from going below 0, so that more evidence never lowers a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strata.indexing.chunking import Chunker
from strata.indexing.prepare import parse_file
from strata.model.asking import Filter, Question, Retrieved
from strata.model.corpus import Chunk, FileEntry, SourceFile, blob_sha_of
from strata.ports import SearchRequest
from strata.retrieval.analyser import query_terms
from strata.retrieval.features import FEATURES, FeatureReranker, feature_rows
from strata.retrieval.filters import DEFAULT_LAYERS
from strata.retrieval.retrieve import checked_text
from strata.retrieval.weighing import fusion_weights, shape_of
from strata_eval.bootstrap import paired_bootstrap
from strata_eval.dataset import JudgedSet
from strata_eval.indexed_sets import GIVEN, IDENTITY, read_any_set
from strata_eval.judgements import Golden, read_given_chunks, read_golden
from strata_eval.memory import MemorySearch
from strata_eval.scoring import score
from strata_eval.vector_cache import CachedEmbedder

Floats = NDArray[np.float64]
SIGNED = ("symbol_row", "bm25_unsure", "bm25_for_code")
"""Fields that may count against a row."""
ROWS = 100
"""More than are ranked anew in use: more wrong rows to learn from."""
QUESTIONS_OF_A_SET = 300
STEPS = 400
REGULARISATION = 0.0002
GOLDEN_SHARE = 0.2
_ABSENT = -1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One question: its rows, their fields, and which rows are right."""

    text: str
    retrieved: Retrieved
    fields: Floats
    files: tuple[str, ...]
    right_file: NDArray[np.bool_]
    right_row: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A set's lessons, in the order of its queries."""

    judged: JudgedSet
    golden: Mapping[str, Sequence[Golden]]
    lessons: tuple[Lesson, ...]

    @property
    def given(self) -> bool:
        return self.judged.name.endswith(GIVEN)

    @property
    def family(self) -> str:
        """Sets that share documents are left out together: the same texts in two languages, or cut in two ways."""
        name = self.judged.name.removesuffix(GIVEN)
        stem, _, language = name.rpartition("-")
        return stem if stem and len(language) == 2 else name


def read_course(data: Path, name: str, embedder: CachedEmbedder) -> Course:
    """Cut, embed and ask a set in memory."""
    judged = read_any_set(data, name)
    golden = read_golden(data / name.removesuffix(GIVEN))
    if name.endswith(GIVEN):
        chunks = [chunk for part in read_given_chunks(data / name.removesuffix(GIVEN)).values() for chunk in part]
    else:
        chunks = own_chunks(judged, embedder)
    vectors = embedder.embed_documents([chunk.embedded_text for chunk in chunks])
    search = MemorySearch(chunks, vectors, embedding_model=embedder.model_id)
    lessons = tuple(
        _lesson(judged, golden.get(query.query_id, ()), query.text, query.query_id, search, embedder)
        for query in judged.queries
    )
    return Course(judged=judged, golden=golden, lessons=lessons)


def own_chunks(judged: JudgedSet, embedder: CachedEmbedder) -> list[Chunk]:
    """The set's files as the product cuts them, without the layers that a search leaves out."""
    chunker = Chunker(counter=embedder)
    return [
        chunk
        for document in judged.documents
        for chunk in parse_file(_source(document.path, document.text), chunker).chunks
        if chunk.layer in DEFAULT_LAYERS
    ]


def _lesson(  # noqa: PLR0917 - one call
    judged: JudgedSet,
    golden: Sequence[Golden],
    text: str,
    query_id: str,
    search: MemorySearch,
    embedder: CachedEmbedder,
) -> Lesson:
    text = checked_text(text[:8_000])
    weights = fusion_weights(shape_of(text, embedder.languages))
    retrieved = search.search(
        SearchRequest(
            question=Question(
                text=text, session_id=judged.name, identity=IDENTITY, limit=50, filter=Filter(layers=DEFAULT_LAYERS)
            ),
            embedding=embedder.embed_query(text),
            embedding_model=embedder.model_id,
            terms=query_terms(text),
            depth=ROWS,
            rows=ROWS,
            dense_weight=weights.dense,
            lexical_weight=weights.lexical,
        )
    )
    rows = retrieved.candidates
    given = judged.name.endswith(GIVEN)
    return Lesson(
        text=text,
        retrieved=retrieved,
        fields=feature_rows(text, retrieved, embedder.languages),
        files=tuple(row.path for row in rows),
        right_file=np.array([row.path in judged.relevant[query_id] for row in rows], dtype=bool),
        right_row=np.array([any(piece.found_by(row, given=given) for piece in golden) for row in rows], dtype=bool),
    )


class _Packed:
    """A course as arrays: (questions, rows, fields), shorter lists filled up."""

    def __init__(self, lessons: Sequence[Lesson]) -> None:
        count, rows = len(lessons), max(len(lesson.files) for lesson in lessons)
        self.fields = np.zeros((count, rows, len(FEATURES)))
        self.present = np.zeros((count, rows), dtype=bool)
        self.right_file, self.right_row = self.present.copy(), self.present.copy()
        self.file = np.zeros((count, rows), dtype=np.int64)
        for number, lesson in enumerate(lessons):
            length = len(lesson.files)
            self.fields[number, :length] = lesson.fields
            self.present[number, :length] = True
            self.right_file[number, :length] = lesson.right_file
            self.right_row[number, :length] = lesson.right_row
            names = {name: position for position, name in enumerate(dict.fromkeys(lesson.files))}
            self.file[number] = number * rows + rows - 1
            self.file[number, :length] = [number * rows + names[name] for name in lesson.files]

    def gradient(self, weights: Floats) -> Floats:
        scores = np.where(self.present, self.fields @ weights, _ABSENT)
        best = np.full(scores.size, _ABSENT)
        np.maximum.at(best, self.file.ravel(), scores.ravel())
        leading = (scores == best[self.file]) & self.present
        return self._cross_entropy(scores, leading, self.right_file) + GOLDEN_SHARE * self._cross_entropy(
            scores, self.present, self.right_row
        )

    def _cross_entropy(self, scores: Floats, among: NDArray[np.bool_], right: NDArray[np.bool_]) -> Floats:
        """The gradient of -log(share of the right rows), a mean over the questions that have right and wrong ones."""
        usable = (among & right).any(axis=1) & (among & ~right).any(axis=1)
        if not usable.any():
            return np.zeros(len(FEATURES))
        masked = np.where(among, scores, _ABSENT)[usable]
        shares = np.exp(masked - masked.max(axis=1, keepdims=True)) * among[usable]
        shares /= shares.sum(axis=1, keepdims=True)
        wanted = shares * right[usable]
        wanted /= np.maximum(wanted.sum(axis=1, keepdims=True), 1e-12)
        gradient: Floats = np.einsum("qr,qrf->f", shares - wanted, self.fields[usable]) / usable.sum()
        return gradient


def learn(courses: Sequence[Course]) -> dict[str, float]:
    """The weights that serve these sets best. The same courses give the same weights."""
    draws = np.random.default_rng(0)
    packed = []
    for course in courses:
        order = draws.permutation(len(course.lessons))[:QUESTIONS_OF_A_SET]
        lessons = [course.lessons[number] for number in order if course.lessons[number].files]
        packed.append(_Packed(lessons))
    weights = np.array([3.0 if name in ("dense", "bm25") else 0.0 for name in FEATURES])
    evidence = np.array([name not in SIGNED for name in FEATURES])
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):  # Adam, its steps halved every third of the way
        gradient = sum((part.gradient(weights) for part in packed), np.zeros_like(weights)) / max(1, len(packed))
        gradient += REGULARISATION * weights
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.98 * square + 0.02 * gradient**2
        rate = 0.25 * 0.5 ** (3 * step / STEPS)
        weights -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.98**step)) + 1e-8)
        weights = np.where(evidence, np.maximum(weights, 0.0), weights)
    return {name: round(float(weight), 3) for name, weight in zip(FEATURES, weights, strict=True)}


def train(courses: Sequence[Course], languages: frozenset[str], say: Callable[[str], None]) -> dict[str, Any]:
    """Weights from all courses, and for each set its figures under weights that were learned without its family."""
    unseen: list[dict[str, Any]] = []
    for family in dict.fromkeys(course.family for course in courses):
        weights = learn([course for course in courses if course.family != family])
        for course in courses:
            if course.family == family:
                unseen.append(_figures(course, weights, languages))
                say(f"{course.judged.name}: {unseen[-1]['unseen']['ndcg@10']:.3f}")
    return {"weights": learn(courses), "leave_one_set_out": unseen}


def _figures(course: Course, weights: Mapping[str, float], languages: frozenset[str]) -> dict[str, Any]:
    reranker = FeatureReranker(languages=languages, weights=weights)
    fused = [lesson.retrieved.candidates for lesson in course.lessons]
    ranked = [
        reranker.rerank(
            Question(text=lesson.text, session_id=course.judged.name, identity=IDENTITY), lesson.retrieved
        ).candidates
        for lesson in course.lessons
    ]
    before = score(course.judged, fused, course.golden, given=course.given)
    after = score(course.judged, ranked, course.golden, given=course.given)
    change = paired_bootstrap(before.ndcg, after.ndcg)
    return {
        "set": course.judged.name,
        "queries": len(course.lessons),
        "fusion": dict(before.metrics),
        "unseen": dict(after.metrics),
        "difference": {"mean": round(change.mean, 4), "low": round(change.low, 4), "high": round(change.high, 4)},
    }


def _source(path: str, text: str) -> SourceFile:
    content = text.encode("utf-8", "surrogatepass")
    return SourceFile(entry=FileEntry(path=path, blob_sha=blob_sha_of(content)), content=content)
