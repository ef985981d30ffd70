"""Trains the weights of `strata.retrieval.features`, and says what they are worth on sets that they have not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from strata.errors import FileUnreadable, InvalidQuery
from strata.indexing.chunking.chunker import Chunker
from strata.indexing.prepare import parse_file
from strata.indexing.text_length import text_counter
from strata.model.asking import Filter, Question, Retrieved
from strata.model.corpus import Chunk, FileEntry, SourceFile, blob_sha_of
from strata.ports.search import SearchRequest
from strata.retrieval.analyser import leading_terms, query_terms
from strata.retrieval.diversity import diversified
from strata.retrieval.features import FeatureReranker, feature_rows
from strata.retrieval.filters import DEFAULT_LAYERS
from strata.retrieval.merging import merged
from strata.retrieval.retrieve import RERANKED_ROWS, checked_text
from strata.retrieval.weighing import fusion_weights, shape_of
from strata_eval.dataset import JudgedSet
from strata_eval.derived import DERIVED, JUDGED_ONLY, derived_sets
from strata_eval.indexed_sets import GIVEN, IDENTITY, folder_of, read_any_set
from strata_eval.judgements import Golden, read_given_chunks, read_golden
from strata_eval.learning import DERIVED_SHARE, Lesson, Pack, learn
from strata_eval.memory import MemorySearch
from strata_eval.resampling import paired_bootstrap
from strata_eval.scoring import score
from strata_eval.steps import PIPELINE_ROWS, ROW_TOKENS
from strata_eval.vector_cache import CachedEmbedder


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question and its rows, and what is to be learnt from them."""

    text: str
    retrieved: Retrieved
    lesson: Lesson


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A set's questions, in the order of its queries."""

    judged: JudgedSet
    golden: Mapping[str, Sequence[Golden]]
    asked: tuple[Asked, ...]

    @property
    def derived(self) -> bool:
        return DERIVED in self.judged.name

    @property
    def family(self) -> str:
        """Sets that share documents are left out together: the same texts in two languages, or cut in two ways, and
        what was made of a set."""
        name = self.judged.name.removesuffix(GIVEN).partition(DERIVED)[0]
        stem, _, language = name.rpartition("-")
        return stem if stem and len(language) == 2 else name


def read_courses(data: Path, name: str, embedder: CachedEmbedder) -> list[Course]:
    """Cut, embed and ask a set in memory, and the sets that are made of it."""
    judged, folder = read_any_set(data, name), folder_of(data, name)
    golden = read_golden(folder)
    if not judged.given:
        derived = [
            _course(one.judged, own_chunks(one.judged, embedder), one.golden, embedder) for one in derived_sets(judged)
        ]
        return [_course(judged, own_chunks(judged, embedder), golden, embedder), *derived]
    chunks = [chunk for part in read_given_chunks(folder).values() for chunk in part]
    return [_course(judged, chunks, golden, embedder)]


def _course(
    judged: JudgedSet, chunks: Sequence[Chunk], golden: Mapping[str, Sequence[Golden]], embedder: CachedEmbedder
) -> Course:
    vectors = embedder.embed_documents([chunk.embedded_text for chunk in chunks])
    search = MemorySearch(chunks, vectors, embedding_model=embedder.model_id)
    asked = tuple(
        _asked(judged, golden.get(query.query_id, ()), query.text, query.query_id, search, embedder)
        for query in judged.queries
    )
    return Course(judged=judged, golden=golden, asked=asked)


def own_chunks(judged: JudgedSet, embedder: CachedEmbedder) -> list[Chunk]:
    """The set's files as the product cuts them, without the layers that a search leaves out; none of a file that can't
    be read."""
    chunker = Chunker(counter=text_counter(embedder))
    chunks: list[Chunk] = []
    for document in judged.documents:
        with suppress(FileUnreadable):
            cut = parse_file(_source(document.path, document.text), chunker).chunks
            chunks += [chunk for chunk in cut if chunk.layer in DEFAULT_LAYERS]
    return chunks


def _asked(  # noqa: PLR0917 - one call
    judged: JudgedSet,
    golden: Sequence[Golden],
    text: str,
    query_id: str,
    search: MemorySearch,
    embedder: CachedEmbedder,
) -> Asked:
    """What a search refuses to look for finds nothing."""
    retrieved = Retrieved(candidates=(), generation=1, embedding_model=embedder.model_id)
    with suppress(InvalidQuery):
        text = checked_text(text[:8_000])
        retrieved = _searched(judged.name, text, search, embedder) if query_terms(text) else retrieved
    rows = retrieved.candidates
    return Asked(
        text=text,
        retrieved=retrieved,
        lesson=Lesson(
            fields=feature_rows(text, retrieved, embedder.languages),
            files=tuple(row.path for row in rows),
            right_file=np.array([row.path in judged.relevant[query_id] for row in rows], dtype=np.bool_),
            right_row=np.array(
                [any(piece.found_by(row, given=judged.given) for piece in golden) for row in rows], dtype=np.bool_
            ),
        ),
    )


def _searched(name: str, text: str, search: MemorySearch, embedder: CachedEmbedder) -> Retrieved:
    weights = fusion_weights(shape_of(text, embedder.languages))
    return search.search(
        SearchRequest(
            question=Question(
                text=text,
                session_id=name,
                identity=IDENTITY,
                limit=PIPELINE_ROWS,
                filter=Filter(layers=DEFAULT_LAYERS),
            ),
            embedding=embedder.embed_query(text),
            embedding_model=embedder.model_id,
            terms=query_terms(text),
            leading_terms=leading_terms(text),
            depth=RERANKED_ROWS,
            rows=RERANKED_ROWS,
            dense_weight=weights.dense,
            lexical_weight=weights.lexical,
        )
    )


def train(courses: Sequence[Course], languages: frozenset[str], say: Callable[[str], None]) -> dict[str, Any]:
    """Weights from all courses, and for each set its figures under weights that were learned without its family."""
    packs = {
        course.judged.name: Pack(
            [asked.lesson for asked in course.asked], share=DERIVED_SHARE if course.derived else 1.0
        )
        for course in courses
        if not course.judged.name.endswith(JUDGED_ONLY)
    }
    unseen: list[dict[str, Any]] = []
    for family in dict.fromkeys(course.family for course in courses):
        others = [
            packs[course.judged.name] for course in courses if course.family != family and course.judged.name in packs
        ]
        if not others:
            say(f"{family}: there is no other set to learn from; its figures are of weights that know nothing.")
        weights = learn(others)
        for course in courses:
            if course.family == family:
                unseen.append(_figures(course, weights, languages))
                say(f"{course.judged.name}: {unseen[-1]['unseen']['ndcg@10']:.3f}")
    return {"weights": learn(list(packs.values())), "leave_one_set_out": unseen}


def _figures(course: Course, weights: Mapping[str, float], languages: frozenset[str]) -> dict[str, Any]:
    reranker = FeatureReranker(languages=languages, weights=weights)
    fused = [asked.retrieved.candidates for asked in course.asked]
    ranked = []
    for asked in course.asked:
        question = Question(text=asked.text, session_id=course.judged.name, identity=IDENTITY)
        found = reranker.rerank(question, asked.retrieved)
        rows = merged(found.candidates, most_tokens=ROW_TOKENS, least_rows=PIPELINE_ROWS)
        ranked.append(diversified(replace(found, candidates=rows), PIPELINE_ROWS))
    before = score(course.judged, fused, course.golden)
    after = score(course.judged, ranked, course.golden)
    change = paired_bootstrap(before.ndcg, after.ndcg)
    return {
        "set": course.judged.name,
        "queries": len(course.asked),
        "fusion": dict(before.metrics),
        "unseen": dict(after.metrics),
        "difference": {"mean": round(change.mean, 4), "low": round(change.low, 4), "high": round(change.high, 4)},
    }


def _source(path: str, text: str) -> SourceFile:
    content = text.encode()
    return SourceFile(entry=FileEntry(path=path, blob_sha=blob_sha_of(content)), content=content)
