"""A search on the wire: what may be found and what is preferred, and the rows that come back."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from strata.contracts.jobs import View
from strata.errors import InvalidQuery, SessionNotFound
from strata.jobs.naming import is_session_id
from strata.model.access import Identity
from strata.model.asking import Candidate, Explanation, Question, Retrieved
from strata.model.corpus import Layer, Span
from strata.retrieval.analyser import analyse
from strata.retrieval.filters import checked_filter
from strata.retrieval.retrieve import checked_text
from strata.retrieval.staleness import with_staleness

MAX_LIMIT = 50
MAX_PATTERNS = 50
MAX_PATTERN_CHARACTERS = 1_000

Pattern = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_CHARACTERS)]
Patterns = Annotated[list[Pattern], Field(max_length=MAX_PATTERNS)]


class SearchOptions(BaseModel):
    """What may be found, and what is preferred; an empty list restricts nothing. A number in quotes is none."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    layers: Annotated[list[str], Field(max_length=MAX_PATTERNS)] = []
    path_prefixes: Patterns = []
    exclude_path_prefixes: Patterns = []
    exclude_like_patterns: Patterns = []
    prefer_path_prefixes: Patterns = []
    prefer_like_patterns: Patterns = []
    prefer_non_tests: bool = False
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 10

    def _question(self, text: str, session_id: str, identity: Identity) -> Question:
        if not is_session_id(session_id):
            raise SessionNotFound
        text = checked_text(text)
        if not analyse(text):
            raise InvalidQuery("The question holds no word and no number; ask in words.")
        return Question(
            text=text,
            session_id=session_id,
            identity=identity,
            limit=self.limit,
            filter=checked_filter(
                layers=self.layers,
                path_prefixes=self.path_prefixes,
                exclude_path_prefixes=self.exclude_path_prefixes,
                exclude_like_patterns=self.exclude_like_patterns,
                prefer_path_prefixes=self.prefer_path_prefixes,
                prefer_like_patterns=self.prefer_like_patterns,
                prefer_non_tests=self.prefer_non_tests,
            ),
        )


class Search(SearchOptions):
    """The body of `POST …/retrieve`; `explain` asks for the parts of every row's score."""

    query: str
    explain: bool = False

    def to_question(self, session_id: str, identity: Identity) -> Question:
        """Raises `SessionNotFound`, `InvalidQuery`, `UnknownLayer`, `InvalidPath` and `InvalidRequest`."""
        return replace(self._question(self.query, session_id, identity), explain=self.explain)


class AlsoView(View):
    """A row that this one stands for: a neighbour taken in, its lines in another layer, a copy of the file."""

    layer: Layer
    path: str
    lines: tuple[int, int]


class ScorePartView(View):
    """`sentence` says what the part tells of a row. A list's part has a rank; a field's of the reranker has none."""

    name: str
    sentence: str
    rank: int | None
    value: float | None
    weight: float
    part: float


class TermPartView(View):
    term: str
    part: float


class ExplanationView(View):
    """`parts` add up to the row's score, `terms` to its `bm25`; null where the session has restricted files."""

    parts: list[ScorePartView]
    terms: list[TermPartView] | None
    allowed_by: str

    @classmethod
    def of(cls, explanation: Explanation) -> ExplanationView:
        terms = explanation.terms
        return cls(
            parts=[ScorePartView(**asdict(part)) for part in explanation.parts],
            terms=None if terms is None else [TermPartView(**asdict(term)) for term in terms],
            allowed_by=explanation.allowed_by,
        )


class RowView(View):
    """A ranked chunk with every ranking field; `explain` where it was asked for.

    `content` and the span also hold the neighbours that it took in; `also` names those, and rows that show the same.
    In `metadata`, `staleness_score` is how old the file is today: 0 for a new one, one half after a year, below 1.
    """

    path: str
    layer: Layer
    title: str
    content: str
    metadata: dict[str, Any]
    span_start: int
    span_end: int
    score: float
    dense_rank: int | None
    distance: float | None
    lexical_rank: int | None
    bm25: float | None
    prefer_bonus: int
    test_penalty: int
    layer_rank: int
    exact_rank: int | None
    structural_rank: int | None
    also: list[AlsoView]
    blob_sha: str
    chunk_id: int
    explain: ExplanationView | None

    @classmethod
    def of(cls, candidate: Candidate, now: datetime) -> RowView:
        return cls(
            path=candidate.path,
            layer=candidate.layer,
            title=candidate.title,
            content=candidate.content,
            metadata=with_staleness(candidate.metadata, now),
            span_start=candidate.span.start,
            span_end=candidate.span.end,
            score=candidate.score,
            dense_rank=candidate.dense_rank,
            distance=candidate.distance,
            lexical_rank=candidate.lexical_rank,
            bm25=candidate.bm25,
            prefer_bonus=candidate.prefer_bonus,
            test_penalty=candidate.test_penalty,
            layer_rank=candidate.layer_rank,
            exact_rank=candidate.exact_rank,
            structural_rank=candidate.structural_rank,
            also=[AlsoView(layer=also.layer, path=also.path, lines=lines_of(also.span)) for also in candidate.also],
            blob_sha=candidate.blob_sha,
            chunk_id=candidate.chunk_id,
            explain=None if candidate.explanation is None else ExplanationView.of(candidate.explanation),
        )


class RetrievedView(View):
    """`notes` are sentences on what did not go as it should, say a reranker that failed: the order before it stands."""

    session_id: str
    generation: int
    embedding_model: str
    notes: list[str]
    rows: list[RowView]

    @classmethod
    def of(cls, session_id: str, retrieved: Retrieved, now: datetime) -> RetrievedView:
        return cls(
            session_id=session_id,
            generation=retrieved.generation,
            embedding_model=retrieved.embedding_model,
            notes=list(retrieved.notes),
            rows=[RowView.of(candidate, now) for candidate in retrieved.candidates],
        )


def lines_of(span: Span) -> tuple[int, int]:
    """The first and the last line, 1-based."""
    return span.start, span.end
