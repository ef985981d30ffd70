"""Question → Answer: cache gate, retrieve, augment, generate, ground."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from strata.answering.abstaining import not_found
from strata.answering.augment import augment
from strata.answering.cache_gate import CacheGate
from strata.answering.events import AnswerEvent, DeltaEvent, DoneEvent, MetaEvent, SourcesEvent, Usage
from strata.answering.grounding import Grounder
from strata.model.asking import Answer, Context, Question, Retrieved
from strata.ports.embedding import TokenCounter
from strata.ports.generation import Generator
from strata.ports.search import ChunkSearch
from strata.retrieval.retrieve import Retriever

PATIENCE_S = 2.0
"""How long a question is searched anew when commits replace its candidates before their lines are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answerer:
    """Answers questions from the indexed corpus; refuses what the corpus does not support."""

    gate: CacheGate
    retriever: Retriever
    search: ChunkSearch
    generator: Generator
    counter: TokenCounter
    max_context_tokens: int

    def answer(self, question: Question) -> Answer:
        """The whole answer. Raises what `stream` raises."""
        *_, last = self.stream(question)
        if not isinstance(last, DoneEvent):
            raise TypeError("the last event of an answer is its end")
        return last.answer

    def stream(self, question: Question, *, started: float | None = None) -> Iterator[AnswerEvent]:
        """The answer as it is made: meta, sources, deltas with their citations, done.

        `started` is the request's beginning by `time.perf_counter`, from which the timings count; else it is now.
        Nothing is sent before the sources are read, so what fails until then (`SessionNotFound`, a store or the
        embedder) is raised before the first event. Closing the iterator stops the work.
        """
        clock = _StopWatch(time.perf_counter() if started is None else started)
        retrieved, context, cache = self._look_up(question)
        yield MetaEvent(
            query_id=f"query-{uuid.uuid4().hex}",
            session_id=question.session_id,
            generation=retrieved.generation,
            model=self.generator.model_id,
            cache=cache,
            notes=retrieved.notes,
        )
        clock.note("sources")
        yield SourcesEvent(sources=context.pieces)

        grounder = Grounder(context)
        for event in self._generate(context, grounder):
            clock.note_once("first_delta")
            yield event
        answer = grounder.answer()
        if answer is None:
            answer = not_found(context, retrieved)
            if not grounder.has_text:
                clock.note_once("first_delta")
                yield DeltaEvent(text=answer.text)
        elif cache == "miss":
            self.gate.keep(question, retrieved)
        clock.note("total")
        usage = Usage(
            sources=len(context.pieces),
            context_tokens=context.tokens,
            answer_characters=len(answer.text),
            removed_citations=tuple(grounder.removed),
        )
        yield DoneEvent(answer=answer, usage=usage, timings_ms=clock.noted)

    def _look_up(self, question: Question) -> tuple[Retrieved, Context, Literal["hit", "miss"]]:
        """Candidates from the cache or the search, and their context.

        A commit may replace chunks between the search and the reading of their lines; then the question is searched
        again, so that an answer never comes from half of an index.
        """
        found = self.gate.lookup(question)
        cache: Literal["hit", "miss"] = "hit" if found else "miss"
        retrieved = found or self.retriever.retrieve(question)
        texts = self._read(retrieved, question)
        limit = time.monotonic() + PATIENCE_S
        while not all(candidate.chunk_id in texts for candidate in retrieved.candidates):
            if time.monotonic() > limit:
                break
            retrieved, cache = self.retriever.retrieve(question), "miss"
            texts = self._read(retrieved, question)
        context = augment(question, retrieved, texts, counter=self.counter, max_tokens=self.max_context_tokens)
        return retrieved, context, cache

    def _read(self, retrieved: Retrieved, question: Question) -> dict[int, str]:
        chunk_ids = [candidate.chunk_id for candidate in retrieved.candidates]
        return self.search.sources(question.session_id, question.identity, chunk_ids) if chunk_ids else {}

    def _generate(self, context: Context, grounder: Grounder) -> Iterator[AnswerEvent]:
        if not context.pieces:
            return
        for delta in self.generator.generate(context):
            yield from grounder.feed(delta)
        yield from grounder.finish()


class _StopWatch:
    """Milliseconds since `started`, by name."""

    def __init__(self, started: float) -> None:
        self._started = started
        self.noted: dict[str, float] = {}

    def note_once(self, name: str) -> None:
        if name not in self.noted:
            self.note(name)

    def note(self, name: str) -> None:
        self.noted[name] = round((time.perf_counter() - self._started) * 1_000, 3)
