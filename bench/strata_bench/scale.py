"""How search grows with an index: its time at each size, and what the approximate plan finds of the exact one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.model.corpus import EmbeddedChunk, Vector
from strata.ports.embedding import Embedder
from strata.retrieval.analyser import query_terms
from strata.storage.postgres.connection import connect
from strata_bench.bulk import Base, BulkSession, tidy_all
from strata_bench.copies import GrownSession, embedded_chunks
from strata_bench.corpus import Corpus
from strata_bench.searches import Asked, measured_searches, session_costs
from strata_bench.workbench import IDENTITY, Workbench, make_session

SESSION_CHUNKS = 1_000
BASE_CHUNKS = 3_000
MAX_QUESTIONS = 100
TIMED_QUESTIONS = 50
LINE_CHARACTERS = 120


def run_scale(
    bench: Workbench,
    corpus: Corpus,
    embedder: Embedder,
    *,
    sizes: Sequence[int],
    sessions: Sequence[int],
    churn: int,
    bulk: bool,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """One session grown to each of the sizes, and beside it as many sessions of 1,000 chunks each as `sessions` say.

    Rows are written by commits, or (`bulk`) by COPY; at the greatest size come `churn` commits of three files.
    Times are in milliseconds, of a whole search with its rows read, without the embedding of the question;
    `first_lines` are those of the questions' first lines alone, as short as people type. Of many sessions each question
    goes to one that is drawn by chance.
    """
    say(f"embedding about {BASE_CHUNKS} chunks of {corpus.name}")
    base = embedded_chunks(corpus, embedder, at_most=BASE_CHUNKS)
    arrays = None
    if bulk:
        with connect(bench.owner_url) as connection:
            arrays = Base.of(base, connection)
    asked = Asked(
        questions=_embedded(corpus.questions[:MAX_QUESTIONS], embedder),
        lines=_embedded(_first_lines(corpus.questions), embedder),
        timed=TIMED_QUESTIONS,
    )
    growth = _Growth(bench=bench, embedder=embedder, base=base, arrays=arrays, asked=asked, say=say)
    return {
        "corpus": corpus.name,
        "questions": len(asked.questions),
        "churn": churn,
        "written_by": "copy" if bulk else "commits",
        "sizes": growth.of_one_session(sorted(sizes), churn) if sizes else [],
        "sessions": growth.of_sessions(sorted(sessions)),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth:
    bench: Workbench
    embedder: Embedder
    base: Sequence[EmbeddedChunk]
    arrays: Base | None
    asked: Asked
    say: Callable[[str], None]

    def of_one_session(self, sizes: Sequence[int], churn: int) -> list[dict[str, Any]]:
        measured: list[dict[str, Any]] = []
        one = self._new_session("one")
        for size in sizes:
            started = time.perf_counter()
            rows = one.grow(size)
            seconds = time.perf_counter() - started
            if size == sizes[-1]:
                one.churn(churn)
            self.say(f"{rows:,} chunks in one session")
            found = measured_searches(self.bench, self.embedder, lambda _: "one", self.asked)
            measured.append({"rows": rows, "grow_s": round(seconds, 1), **found})
            self.say(json.dumps(measured[-1]))
        return measured

    def of_sessions(self, counts: Sequence[int]) -> list[dict[str, Any]]:
        """As of one session, and what a connection pays for asking all of them (`session_costs`)."""
        measured: list[dict[str, Any]] = []
        names: list[str] = []
        rows = 0
        for count in counts:
            started = time.perf_counter()
            while len(names) < count:
                names.append(f"many-{len(names)}")
                rows += self._new_session(names[-1], number=len(names), tidies=False).grow(SESSION_CHUNKS)
                if len(names) % 100 == 0:
                    self.say(f"{len(names):,} of {count:,} sessions")
            tidy_all(self.bench.owner_url)
            seconds = time.perf_counter() - started
            found = measured_searches(self.bench, self.embedder, self._drawn(names), self.asked)
            costs = session_costs(self.bench, self.embedder, names, self.asked)
            measured.append({"sessions": len(names), "rows": rows, "grow_s": round(seconds, 1), **found, **costs})
            self.say(json.dumps(measured[-1]))
        return measured

    def _drawn(self, names: Sequence[str]) -> Callable[[int], str]:
        chosen = np.random.default_rng(len(names)).integers(len(names), size=MAX_QUESTIONS)
        return lambda place: names[chosen[place]]

    def _new_session(self, name: str, *, number: int = 0, tidies: bool = True) -> GrownSession | BulkSession:
        """The number says which copies it will hold."""
        make_session(self.bench.sessions, name, self.embedder)
        grown = GrownSession(
            session_id=name,
            tenant=IDENTITY.tenant,
            base=self.base,
            cache=self.bench.cache,
            sessions=self.bench.sessions,
            embedding_model=self.embedder.model_id,
            first=number * len({chunk.chunk.path for chunk in self.base}),
        )
        if self.arrays is None:
            return grown
        return BulkSession(grown=grown, base=self.arrays, url=self.bench.owner_url, tidies=tidies)


def _first_lines(questions: Sequence[str]) -> list[str]:
    lines = [text.splitlines()[0][:LINE_CHARACTERS] for text in questions]
    return [line for line in lines if query_terms(line)][:MAX_QUESTIONS]


def _embedded(texts: Sequence[str], embedder: Embedder) -> list[tuple[str, Vector]]:
    return [(text, embedder.embed_query(text)) for text in texts]
