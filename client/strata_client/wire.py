"""The shapes that the API sends and takes: JSON objects as they come."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

ArchiveFormat = Literal["tar.gz", "zip", "jsonl"]


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


class PlaceView(TypedDict):
    path: str
    name: str
    line: int


class LinkView(TypedDict):
    """At `path:line` the symbol (or the file, where it is empty) names `target`; `leads_to` is its definition here."""

    kind: Literal["imports", "calls", "inherits", "documents", "mentions"]
    path: str
    line: int
    symbol: str
    target: str
    leads_to: PlaceView | None


class LinksView(TypedDict):
    session_id: str
    uses: list[LinkView]
    used_by: list[LinkView]
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
    """What a list (`dense`, `lexical`, `exact`, `structural`) or a field of the reranker (`rank` is null) adds to a
    row's score; `sentence` says what it tells of the row.
    """

    name: str
    sentence: str
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
