"""The shapes that the API sends: JSON objects as they come, and a stream's events as small classes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict, cast

from strata_client.errors import ClientError, StrataApiError
from strata_client.sse import SseEvent

ArchiveFormat = Literal["tar.gz", "zip", "jsonl"]
ENDED = frozenset({"done", "error", "cancelled", "expired"})
"""The states in which a job does not change any more."""


class Counters(TypedDict):
    """A job's work, in files."""

    indexed_files: int
    failed_files: int
    cache_hit_files: int
    cache_miss_files: int
    skipped_files: int
    deleted_files: int


class PathReason(TypedDict):
    path: str
    reason: str


class ParserNote(TypedDict):
    """What could not be made of a file that is indexed all the same; `line` is None for the whole of it."""

    path: str
    line: int | None
    reason: str


class ErrorView(TypedDict):
    code: str
    message: str


class SessionView(TypedDict):
    session_id: str
    project_id: str
    repo_id: str
    owner: str
    readers: list[str]
    generation: int
    embedding_model: str
    dimension: int


class DriftedView(TypedDict):
    """`known` is the longest part of a symbol's name that exists."""

    path: str
    line: int
    kind: Literal["file", "symbol"]
    name: str
    known: str | None


class DriftView(TypedDict):
    session_id: str
    drift: list[DriftedView]
    truncated: bool


class ModelUsage(TypedDict):
    """`cost` is null where the deployment knows no prices."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None


class JobView(TypedDict):
    """`skipped`, `failed` and `notes` are capped lists; the counters and `note_count` are whole. `preambles` is what a
    chat model used to write them, null where it writes none.
    """

    job_id: str
    session_id: str
    kind: str
    status: str
    seq: int | None
    created_at: str
    updated_at: str
    counters: Counters
    chunks: int
    generation: int | None
    skipped: list[PathReason]
    failed: list[PathReason]
    notes: list[ParserNote]
    note_count: int
    preambles: ModelUsage | None
    error: ErrorView | None
    links: dict[str, str]


class DeadLetterView(TypedDict):
    """An upload that could not become a job."""

    id: str
    session_id: str | None
    object_key: str
    reason: str
    created_at: str


class FailureList(TypedDict):
    """Both newest first; `retry_job` takes the id of each."""

    jobs: list[JobView]
    dead_letters: list[DeadLetterView]


class UploadForm(TypedDict):
    """A presigned POST: every field of `fields`, then the file, to `url`."""

    url: str
    fields: dict[str, str]
    expires_in_s: int
    key: str


class CreatedSession(TypedDict):
    """`upload` is None when the files came with the request."""

    session: SessionView
    job: JobView
    upload: UploadForm | None


class FileUpload(TypedDict):
    """A file sent in a request: text in `content`, or bytes in `content_b64` (base64)."""

    path: str
    content: NotRequired[str]
    content_b64: NotRequired[str]
    content_hash: NotRequired[str]
    last_modified: NotRequired[str]
    acl: NotRequired[list[str]]


class Change(FileUpload):
    op: Literal["upsert", "delete"]


class SourceView(TypedDict):
    """A numbered source of an answer; `lines` is [first, last], 1-based."""

    n: int
    path: str
    layer: str
    title: str
    lines: list[int]
    blob_sha: str
    score: float


class CitationView(TypedDict):
    """A pointer into source `n`: `quote` stands in `lines` of `path`."""

    n: int
    path: str
    lines: list[int]
    quote: str
    supported: bool


class AnswerText(TypedDict):
    text: str
    citations: list[CitationView]
    grounded: bool
    abstained: bool


class AnswerView(TypedDict):
    query_id: str
    session_id: str
    generation: int
    model: str
    cache: str
    notes: list[str]
    answer: AnswerText
    sources: list[SourceView]
    usage: dict[str, Any]
    timings_ms: dict[str, float]


class Also(TypedDict):
    """A row that another one stands for."""

    layer: str
    path: str
    lines: list[int]


class ScorePart(TypedDict):
    """What a list (`dense`, `lexical`, `exact`) or a field of the reranker (`rank` is null) adds to a row's score."""

    name: str
    rank: int | None
    value: float | None
    weight: float
    part: float


class TermPart(TypedDict):
    term: str
    part: float


class Explanation(TypedDict):
    """`terms` is null where the session has restricted files."""

    parts: list[ScorePart]
    terms: list[TermPart] | None
    allowed_by: str


class Row(TypedDict):
    """A ranked chunk with its ranking fields."""

    path: str
    layer: str
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
    also: list[Also]
    blob_sha: str
    chunk_id: int
    explain: Explanation | None


class RetrievedView(TypedDict):
    """`notes` say what did not go as it should, as a reranker that failed."""

    session_id: str
    generation: int
    embedding_model: str
    notes: list[str]
    rows: list[Row]


class IndexedFile(TypedDict):
    """A file as it was indexed, whole."""

    path: str
    blob_sha: str
    text: str


class SearchOptions(TypedDict, total=False):
    """What a question or a search may say beyond its words; the meaning of each is the API's."""

    layers: list[str]
    path_prefixes: list[str]
    exclude_path_prefixes: list[str]
    exclude_like_patterns: list[str]
    prefer_path_prefixes: list[str]
    prefer_like_patterns: list[str]
    prefer_non_tests: bool
    limit: int


class RetrieveOptions(SearchOptions, total=False):
    """`explain` asks for the parts of every row's score."""

    explain: bool


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


def api_error(status: int, body: bytes) -> StrataApiError:
    """An error reply → `StrataApiError`, whoever wrote the body: Strata, a gateway, S3 or a proxy."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        error = answer.get("error")
        if isinstance(error, dict):
            return StrataApiError(status, str(error.get("code", "error")), str(error.get("message", "")))
        if isinstance(answer.get("message"), str):
            return StrataApiError(status, f"http_{status}", answer["message"])
    text = body[:2_000].decode("utf-8", "replace")
    code, message = _between(text, "Code"), _between(text, "Message")
    if code and message:
        return StrataApiError(status, code, f"The upload was refused: {message}")
    return StrataApiError(status, f"http_{status}", f"The server answered with HTTP {status} and no reason.")


def _between(text: str, tag: str) -> str:
    """The text of an XML element without attributes or children, as S3's errors have them."""
    _, opened, rest = text.partition(f"<{tag}>")
    value, closed, _ = rest.partition(f"</{tag}>")
    return value if opened and closed else ""
