"""Questions and answers on the wire: one request for both routes, an answer as events or as one object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from strata.answering.events import AnswerEvent, CitationEvent, DeltaEvent, DoneEvent, MetaEvent, SourcesEvent, Usage
from strata.contracts.jobs import View
from strata.errors import InvalidQuery, SessionNotFound
from strata.jobs.naming import is_session_id
from strata.model.access import Identity
from strata.model.asking import Candidate, Citation, Explanation, IndexedText, Question, Retrieved, SourcePiece
from strata.model.corpus import Layer, Span
from strata.retrieval.analyser import analyse
from strata.retrieval.filters import checked_filter
from strata.retrieval.retrieve import checked_text

MAX_LIMIT = 50
MAX_PATTERNS = 50
MAX_PATTERN_CHARACTERS = 1_000

Pattern = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_CHARACTERS)]
Patterns = Annotated[list[Pattern], Field(max_length=MAX_PATTERNS)]


class SearchOptions(BaseModel):
    """What may be found, and what is preferred; an empty list restricts nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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


class Ask(SearchOptions):
    """The body of `POST …/query`."""

    question: str

    def to_question(self, session_id: str, identity: Identity) -> Question:
        """Raises `SessionNotFound`, `InvalidQuery`, `UnknownLayer`, `InvalidPath` and `InvalidRequest`."""
        return self._question(self.question, session_id, identity)


class Search(SearchOptions):
    """The body of `POST …/retrieve`; `explain` asks for the parts of every row's score."""

    query: str
    explain: bool = False

    def to_question(self, session_id: str, identity: Identity) -> Question:
        """Raises `SessionNotFound`, `InvalidQuery`, `UnknownLayer`, `InvalidPath` and `InvalidRequest`."""
        return replace(self._question(self.query, session_id, identity), explain=self.explain)


# --- replies -------------------------------------------------------------------------------------------------------


class MetaView(View):
    """`notes` are sentences on what did not go as it should in the search, say a reranker that failed."""

    query_id: str
    session_id: str
    generation: int
    model: str
    cache: Literal["hit", "miss"]
    notes: list[str]

    @classmethod
    def of(cls, event: MetaEvent) -> MetaView:
        return cls(
            query_id=event.query_id,
            session_id=event.session_id,
            generation=event.generation,
            model=event.model,
            cache=event.cache,
            notes=list(event.notes),
        )


class SourceView(View):
    """`lines` are the first and the last line of the source that the answer was made from."""

    n: int
    path: str
    layer: Layer
    title: str
    lines: tuple[int, int]
    blob_sha: str
    score: float

    @classmethod
    def of(cls, piece: SourcePiece) -> SourceView:
        return cls(
            n=piece.n,
            path=piece.path,
            layer=piece.layer,
            title=piece.title,
            lines=_lines(piece.span),
            blob_sha=piece.blob_sha,
            score=piece.score,
        )


class CitationView(View):
    """`quote` stands, letter for letter, in `lines` of `path`."""

    n: int
    path: str
    lines: tuple[int, int]
    quote: str
    supported: bool

    @classmethod
    def of(cls, citation: Citation) -> CitationView:
        return cls(
            n=citation.n,
            path=citation.path,
            lines=_lines(citation.span),
            quote=citation.quote,
            supported=citation.supported,
        )


class UsageView(View):
    sources: int
    context_tokens: int
    answer_characters: int
    removed_citations: list[int]

    @classmethod
    def of(cls, usage: Usage) -> UsageView:
        return cls(
            sources=usage.sources,
            context_tokens=usage.context_tokens,
            answer_characters=usage.answer_characters,
            removed_citations=list(usage.removed_citations),
        )


class TimingsView(View):
    """Milliseconds since the request began; `first_delta` is absent where nothing was streamed."""

    sources: float
    first_delta: float | None = None
    total: float


class DoneView(View):
    """The end of a stream. `answer` is the text that counts: when `abstained`, what was streamed is withdrawn."""

    answer: str
    grounded: bool
    abstained: bool
    usage: UsageView
    timings_ms: TimingsView

    @classmethod
    def of(cls, event: DoneEvent) -> DoneView:
        return cls(
            answer=event.answer.text,
            grounded=event.answer.grounded,
            abstained=event.answer.abstained,
            usage=UsageView.of(event.usage),
            timings_ms=TimingsView(**event.timings_ms),
        )


class AnswerText(View):
    text: str
    citations: list[CitationView]
    grounded: bool
    abstained: bool


class AnswerView(View):
    """A whole answer: what the stream says, as one object."""

    query_id: str
    session_id: str
    generation: int
    model: str
    cache: Literal["hit", "miss"]
    notes: list[str]
    answer: AnswerText
    sources: list[SourceView]
    usage: UsageView
    timings_ms: TimingsView

    @classmethod
    def of(cls, events: Iterable[AnswerEvent]) -> AnswerView:
        """From all the events of one answer."""
        meta: MetaEvent | None = None
        sources: tuple[SourcePiece, ...] = ()
        done: DoneEvent | None = None
        for event in events:
            match event:
                case MetaEvent():
                    meta = event
                case SourcesEvent():
                    sources = event.sources
                case DoneEvent():
                    done = event
        if meta is None or done is None:
            raise ValueError("these are not all the events of an answer")
        end = DoneView.of(done)
        return cls(
            **MetaView.of(meta).model_dump(),
            answer=AnswerText(
                text=end.answer,
                citations=[CitationView.of(citation) for citation in done.answer.citations],
                grounded=end.grounded,
                abstained=end.abstained,
            ),
            sources=[SourceView.of(piece) for piece in sources],
            usage=end.usage,
            timings_ms=end.timings_ms,
        )


class AlsoView(View):
    """A row that this one stands for: the same lines in another layer, or a copy of the file."""

    layer: Layer
    path: str
    lines: tuple[int, int]


class ScorePartView(View):
    """A list's part has a rank; a field's of the reranker has none."""

    name: str
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
    """A ranked chunk with every ranking field; `explain` where it was asked for."""

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
    def of(cls, candidate: Candidate) -> RowView:
        return cls(
            path=candidate.path,
            layer=candidate.layer,
            title=candidate.title,
            content=candidate.content,
            metadata=dict(candidate.metadata),
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
            also=[AlsoView(layer=also.layer, path=also.path, lines=_lines(also.span)) for also in candidate.also],
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
    def of(cls, session_id: str, retrieved: Retrieved) -> RetrievedView:
        return cls(
            session_id=session_id,
            generation=retrieved.generation,
            embedding_model=retrieved.embedding_model,
            notes=list(retrieved.notes),
            rows=[RowView.of(candidate) for candidate in retrieved.candidates],
        )


class FileView(View):
    """A file as it was indexed."""

    path: str
    blob_sha: str
    text: str

    @classmethod
    def of(cls, file: IndexedText) -> FileView:
        # Half a character can't be sent; it shows as U+FFFD.
        return cls(path=file.path, blob_sha=file.blob_sha, text=file.text.encode("utf-8", "replace").decode())


class FilePageView(View):
    """`next` is the `after` of the next page; null when there are no more files."""

    session_id: str
    files: list[FileView]
    next: str | None

    @classmethod
    def of(cls, session_id: str, files: Sequence[IndexedText]) -> FilePageView:
        return cls(
            session_id=session_id,
            files=[FileView.of(file) for file in files],
            next=files[-1].path if files else None,
        )


class HealthView(View):
    status: Literal["ok"] = "ok"
    version: str


def _lines(span: Span) -> tuple[int, int]:
    return span.start, span.end


# --- server-sent events --------------------------------------------------------------------------------------------

# Line ends to some readers (those that split with `str.splitlines`), though not to the standard: written as escapes.
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")


def sse_frame(event: AnswerEvent) -> bytes:
    """One event of an answer as a whole frame in UTF-8."""
    match event:
        case MetaEvent():
            return frame("meta", MetaView.of(event).model_dump(mode="json"))
        case SourcesEvent():
            return frame("sources", [SourceView.of(piece).model_dump(mode="json") for piece in event.sources])
        case DeltaEvent():
            return frame("delta", {"text": event.text})
        case CitationEvent():
            return frame("citation", CitationView.of(event.citation).model_dump(mode="json"))
        case DoneEvent():
            return frame("done", DoneView.of(event).model_dump(mode="json"))


def frame(name: str, data: object) -> bytes:
    """A server-sent event. JSON holds no raw line end, so the data is one line; half a character is escaped.

    >>> frame("delta", {"text": "a\\nб"})
    b'event: delta\\ndata: {"text":"a\\\\n\\xd0\\xb1"}\\n\\n'
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = _LINE_ENDS.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    return f"event: {name}\ndata: {text}\n\n".encode(errors="backslashreplace")
