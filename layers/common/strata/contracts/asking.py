"""Questions and answers on the wire: one request for both routes, an answer as events or as one object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from strata.answering.events import AnswerEvent, DoneEvent, MetaEvent, SourcesEvent, Usage
from strata.contracts.jobs import View
from strata.contracts.searching import SearchOptions, lines_of
from strata.model.access import Identity
from strata.model.asking import Citation, Question, SourcePiece
from strata.model.corpus import Layer


class Ask(SearchOptions):
    """The body of `POST …/query`."""

    question: str

    def to_question(self, session_id: str, identity: Identity) -> Question:
        """Raises `SessionNotFound`, `InvalidQuery`, `UnknownLayer`, `InvalidPath` and `InvalidRequest`."""
        return self._question(self.question, session_id, identity)


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
            lines=lines_of(piece.span),
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
            lines=lines_of(citation.span),
            quote=citation.quote,
            supported=citation.supported,
        )


class UsageView(View):
    """`context_tokens` by the embedder's count; `removed_citations`: numbers that were cited and no source has."""

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
