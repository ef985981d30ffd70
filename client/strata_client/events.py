"""What a stream sends: an answer's events and a job's, as small classes; an answer's put together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from strata_client.errors import ClientError, StrataApiError
from strata_client.sse import SseEvent
from strata_client.wire import AnswerView, CitationView, SourceView


@dataclass(frozen=True, slots=True)
class JobEvent:
    """`name` is `index_status` (progress) or `terminal` (`data` is then the job)."""

    seq: int
    name: str
    data: Mapping[str, Any]

    @property
    def ended(self) -> bool:
        return self.name == "terminal"


@dataclass(frozen=True, slots=True)
class Meta:
    """The first event of an answer: which session state and model it comes from."""

    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sources:
    """The numbered sources that the answer may cite."""

    sources: tuple[SourceView, ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """The next piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation of the text sent so far."""

    citation: CitationView


@dataclass(frozen=True, slots=True)
class Done:
    """The last event: the answer that counts, and whether its claims are supported.

    `text` is that of the deltas, but for `abstained`: then what was streamed, citations too, is withdrawn.
    """

    text: str
    grounded: bool
    abstained: bool
    usage: Mapping[str, Any] = field(default_factory=dict)
    timings_ms: Mapping[str, float] = field(default_factory=dict)


AskEvent = Meta | Sources | Delta | Citation | Done


def ask_event(event: SseEvent) -> AskEvent | None:
    """The typed event; None for a kind that this client does not know yet. Raises `StrataApiError` for `error`."""
    try:
        return _typed(event.name, json.loads(event.data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClientError(f"The server sent a `{event.name}` event that this client can't read; update one.") from error


def _typed(name: str, data: Any) -> AskEvent | None:
    match name:
        case "meta":
            return Meta(data)
        case "sources":
            return Sources(tuple(data))
        case "delta":
            return Delta(data["text"])
        case "citation":
            return Citation(cast("CitationView", data))
        case "done":
            return Done(
                data["answer"],
                bool(data["grounded"]),
                bool(data["abstained"]),
                data.get("usage") or {},
                data.get("timings_ms") or {},
            )
        case "error":
            raise StrataApiError(200, str(data.get("code", "error")), str(data.get("message", "The answer failed.")))
        case _:
            return None


def job_event(event: SseEvent) -> JobEvent:
    try:
        return JobEvent(int(event.id), event.name, json.loads(event.data))
    except ValueError as error:
        raise ClientError(f"The server sent a `{event.name}` event that this client can't read; update one.") from error


class AnswerCollector:
    """A stream's events → the object that the API gives for `Accept: application/json`."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._meta: Mapping[str, Any] = {}
        self._sources: list[SourceView] = []
        self._citations: list[CitationView] = []
        self._done: Done | None = None

    def add(self, event: AskEvent) -> None:
        match event:
            case Meta(data):
                self._meta = data
            case Sources(sources):
                self._sources = list(sources)
            case Citation(citation):
                self._citations.append(citation)
            case Done():
                self._done = event
            case Delta():
                pass  # `done` holds the whole text

    def answer(self) -> AnswerView:
        """The whole answer; only after `Done`."""
        if self._done is None:
            raise ValueError("the stream has not ended")
        return {
            "query_id": str(self._meta.get("query_id", "")),
            "session_id": self._session_id,
            "generation": int(self._meta.get("generation", 0)),
            "model": str(self._meta.get("model", "")),
            "cache": str(self._meta.get("cache", "")),
            "notes": [str(note) for note in self._meta.get("notes", [])],
            "answer": {
                "text": self._done.text,
                "citations": [] if self._done.abstained else self._citations,
                "grounded": self._done.grounded,
                "abstained": self._done.abstained,
            },
            "sources": self._sources,
            "usage": dict(self._done.usage),
            "timings_ms": dict(self._done.timings_ms),
        }
