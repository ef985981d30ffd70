"""What a streamed answer is made of, in the order in which it comes: meta, sources, deltas and citations, done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from strata.model.asking import Answer, Citation, SourcePiece


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaEvent:
    """Which state of which session answers, by which model; `cache` says whether retrieval was skipped, `notes` what
    did not go as it should in it.
    """

    query_id: str
    session_id: str
    generation: int
    model: str
    cache: Literal["hit", "miss"]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesEvent:
    """The numbered sources, best first; nothing else can be cited."""

    sources: tuple[SourcePiece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaEvent:
    """The next characters of the answer; a citation marker is whole and written `[n]`."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CitationEvent:
    """The check of a marker that the deltas before have shown."""

    citation: Citation


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """`removed_citations` are the numbers that the generator cited and the context does not hold."""

    sources: int
    context_tokens: int
    answer_characters: int
    removed_citations: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneEvent:
    """The answer as it counts. Its text is that of the deltas, but for an answer that turned out to have no support:
    then it is the "not found" (`abstained`), and what was streamed is withdrawn.

    `timings_ms` holds `sources`, `first_delta` and `total`, in milliseconds since the request began.
    """

    answer: Answer
    usage: Usage
    timings_ms: Mapping[str, float]


AnswerEvent = MetaEvent | SourcesEvent | DeltaEvent | CitationEvent | DoneEvent
