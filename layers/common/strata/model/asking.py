"""A question and what is made of it: candidates, context, answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strata.model.access import Identity
from strata.model.corpus import Layer, Span

MAX_QUERY_CHARACTERS = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What may be found and what is preferred. Empty means "no restriction"; fields are joined by AND.

    Inside a field the values are joined by OR. Prefixes are literal (`_` and `%` mean themselves); `*_like_patterns`
    are SQL LIKE patterns with `\\` as escape.
    """

    layers: tuple[Layer, ...] = ()
    path_prefixes: tuple[str, ...] = ()
    exclude_path_prefixes: tuple[str, ...] = ()
    exclude_like_patterns: tuple[str, ...] = ()
    prefer_path_prefixes: tuple[str, ...] = ()
    prefer_like_patterns: tuple[str, ...] = ()
    prefer_non_tests: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A self-contained question of one caller to one session; `text` is stripped, with at least one word.

    `explain` asks for the parts of every row's score; it changes neither rows nor order.
    """

    text: str
    session_id: str
    identity: Identity
    filter: Filter = field(default_factory=Filter)
    limit: int = 10
    explain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A symbol, path or code that a question names, as it was written, and the term that stands for the whole."""

    text: str
    term: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """Words in quotes, one blank between them; a chunk that holds the phrase has every one of `terms`."""

    text: str
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a question asks for letter for letter."""

    names: tuple[Name, ...] = ()
    phrases: tuple[Phrase, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.phrases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """What is searched for beside a question: the question in other words, a passage that could answer it.

    `note` says to a person why there is none.
    """

    query: str = ""
    passage: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Also:
    """A row that is not shown because another one shows it: its layer, and where it stands."""

    layer: Layer
    path: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePart:
    """What a list, or a field of the reranker, adds to a row's score: its value times its weight.

    `sentence` says what it tells of the row, the same for every row. In a list the row has a rank, and `value` is its
    own score there; a field has no rank.
    """

    name: str
    sentence: str
    rank: int | None
    value: float | None
    weight: float
    part: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TermPart:
    """What a term of the question adds to a row's BM25 score."""

    term: str
    part: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`parts` add up to the row's score, `terms` (best first) to its `bm25`; `allowed_by` is the rule that shows it.

    `terms` is None where the session has files with a list of readers: how rare a word is tells of files that the
    caller may not read.
    """

    parts: tuple[ScorePart, ...]
    terms: tuple[TermPart, ...] | None
    allowed_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A ranked chunk with every ranking field; `score` is higher for better and compares only within one list.

    `dense_rank` and `lexical_rank` start at 1 and are None where that list does not hold the row. `distance` is
    the cosine distance (0 to 2), `bm25` the BM25 score (0 without a word of the question). A search gives both for
    every row, whichever list found it; None means that the search had no vector, or no words. `exact_rank` is the
    row's place among those that hold a name or a quoted phrase of the question, `structural_rank` its place among the
    neighbours of the best rows. `also` names the rows that this one stands for; `content`
    and `span` hold those of its own layer and file, its neighbours, too.
    """

    chunk_id: int
    path: str
    layer: Layer
    ordinal: int
    title: str
    content: str
    span: Span
    blob_sha: str
    metadata: Mapping[str, Any]
    score: float
    dense_rank: int | None
    distance: float | None
    lexical_rank: int | None
    bm25: float | None
    prefer_bonus: int = 0
    test_penalty: int = 0
    layer_rank: int = 0
    exact_rank: int | None = None
    structural_rank: int | None = None
    also: tuple[Also, ...] = ()
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved:
    """Candidates, best first, and the state of the session that they come from.

    `best_distance` and `greatest_bm25` are the best scores of the two lists that were fused, also where `candidates`
    is only a part of them: what a row's own scores are measured against. `notes` are sentences for a person on what did
    not go as it should, say a reranker that failed; none when all is well. `spread` says that the scores keep the rows
    of one file apart already.
    """

    candidates: tuple[Candidate, ...]
    generation: int
    embedding_model: str
    best_distance: float | None = None
    greatest_bm25: float | None = None
    notes: tuple[str, ...] = ()
    spread: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedText:
    """A file as it was indexed: its whole decoded text."""

    path: str
    blob_sha: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePiece:
    """A numbered source of the context: `text` is the file between the lines of `span`, never rendered content."""

    n: int
    path: str
    layer: Layer
    title: str
    span: Span
    blob_sha: str
    score: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The packed sources for one question, numbered from 1 in the order in which they are shown."""

    question: Question
    pieces: tuple[SourcePiece, ...]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A pointer from the answer into source `n`: `quote` stands, letter for letter, in the lines of `span`."""

    n: int
    path: str
    span: Span
    quote: str
    supported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Text with `[n]` markers, or an honest "not found" (`abstained`). `grounded`: every cited claim is supported."""

    text: str
    citations: tuple[Citation, ...]
    grounded: bool
    abstained: bool
