"""Files and what is made of them: documents, chunks, embedded chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

from strata.errors import InvalidPath, UnknownLayer
from strata.model.chat import ModelUsage
from strata.model.terms import TermCounts

if TYPE_CHECKING:  # a function that accepts a job or tells its state needs no numpy, and starts without it
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"
"""float32, shape (dimension,), unit length."""
Vectors: TypeAlias = "NDArray[np.float32]"
"""float32, shape (texts, dimension), rows of unit length, in the order of the texts."""

MAX_PATH_CHARACTERS = 1_000
MAX_PATH_BYTES = 2_000
"""In UTF-8: a path is part of unique keys, and a B-tree's entry ends at 2,704 bytes."""


class Layer(StrEnum):
    """What kind of document a chunk was cut from."""

    D1_DOCUMENT_CATALOG = "D1_DOCUMENT_CATALOG"
    D2_FACT_INDEX = "D2_FACT_INDEX"
    D3_SECTION_INDEX = "D3_SECTION_INDEX"
    D4_POLICY_INDEX = "D4_POLICY_INDEX"
    C0_SOURCE_CHUNKS = "C0_SOURCE_CHUNKS"
    C1_SYMBOL_CATALOG = "C1_SYMBOL_CATALOG"
    C2_DEPENDENCY_GRAPH = "C2_DEPENDENCY_GRAPH"
    C3_ENTRYPOINTS = "C3_ENTRYPOINTS"
    C4_SEMANTIC_ROLES = "C4_SEMANTIC_ROLES"

    @classmethod
    def named(cls, name: str) -> Layer:
        """The layer of that name, whole ("D3_SECTION_INDEX") or short ("D3"), in any case; else `UnknownLayer`."""
        for layer in cls:
            if name.upper() in (layer.value, layer.value[:2]):
                return layer
        known = ", ".join(layer.value for layer in cls)
        raise UnknownLayer(f"There is no layer {name[:60]!r}; the layers are {known}.")


EMBEDDED_LAYERS = frozenset(
    {Layer.C0_SOURCE_CHUNKS, Layer.C1_SYMBOL_CATALOG, Layer.D1_DOCUMENT_CATALOG, Layer.D3_SECTION_INDEX}
)
"""Layers whose chunks get a vector. The others say again, piece by piece, what these hold, and are found by words and
names; one that holds none of them comes last."""

VERBATIM_LAYERS = frozenset({Layer.C0_SOURCE_CHUNKS, Layer.D3_SECTION_INDEX})
"""Layers whose chunks hold the source itself, between the lines of their span."""

TOKENS = "tokens"
"""In the metadata of a chunk of these layers: how long its content is, as it was counted when it was cut; not known of
a part of a line."""
BLANKS_BEFORE = "blanks_before"
"""In their metadata, true where a line that was left out between the chunk before and this one is not quite empty."""
TABLE_HEADER = "table_header"
"""In a chunk's metadata: the header of the table whose rows it begins with."""


def blob_sha_of(content: bytes) -> str:
    """SHA-256 of a file's bytes, 64 lower-case hex digits: the name of the blob."""
    return hashlib.sha256(content).hexdigest()


def checked_path(path: str) -> str:
    """The path as it is stored: relative, with `/`, without `.` segments and doubled slashes.

    Raises `InvalidPath` for an empty, absolute, drive-lettered or too long path, for one with a `..`
    segment (also one that would stay inside), a backslash or a control character, or one that ends in a slash.

    >>> checked_path("./src//app.py")
    'src/app.py'
    """
    shown = repr(path[:120])
    if not path or path.endswith("/") or len(path) > MAX_PATH_CHARACTERS:
        raise InvalidPath(f"{shown} is not a file's path (1 to {MAX_PATH_CHARACTERS} characters, no final slash).")
    if path.startswith("/") or "\\" in path or (len(path) > 1 and path[1] == ":"):
        raise InvalidPath(f"{shown} must be relative and use forward slashes.")
    if any(ord(character) < 32 or 0xD800 <= ord(character) <= 0xDFFF or ord(character) == 127 for character in path):
        raise InvalidPath(f"{shown} holds a control character or broken text.")
    if len(path.encode()) > MAX_PATH_BYTES:
        raise InvalidPath(f"{shown} is longer than {MAX_PATH_BYTES} bytes.")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise InvalidPath(f"{shown} leaves the project.")
    return str(PurePosixPath(*parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file of a snapshot without its bytes: what the plan compares.

    `acl` is None when whoever reads the session may read the file; a tuple of principals narrows that,
    an empty one to nobody.
    """

    path: str
    blob_sha: str
    acl: tuple[str, ...] | None = None
    last_modified: datetime | None = None
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file's bytes under its path; `entry.blob_sha` is the hash of `content`, computed by us."""

    entry: FileEntry
    content: bytes

    @property
    def path(self) -> str:
        return self.entry.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a parser could not make of a file, and why; `line` is where, in the text that spans count lines in."""

    reason: str
    line: int | None = None

    @property
    def text(self) -> str:
        """
        >>> Note(reason="no sound YAML", line=2).text
        'line 2: no sound YAML'
        """
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFile:
    """What a job says about one file: `reason` is a short sentence for a person.

    `acl` is the file's own: only who may read the file may read what is said about it. `named` is another file that
    the reason names, with a list of its own.
    """

    path: str
    reason: str
    line: int | None = None
    acl: tuple[str, ...] | None = None
    named: str | None = None
    named_acl: tuple[str, ...] | None = None

    def nameless(self) -> ReportedFile:
        """For who may read this file, but not the one that the reason names."""
        return replace(self, reason="It is ignored by a file that you may not read.", named=None, named_acl=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Lines of the source, 1-based, both ends included."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 1 <= self.start <= self.end:
            raise ValueError(f"not a span of lines: {self.start}-{self.end}")


class LinkKind(StrEnum):
    """How a name in a file leads elsewhere. `DEFINES` names what the file itself is and holds: where links end."""

    DEFINES = "defines"
    IMPORTS = "imports"
    CALLS = "calls"
    INHERITS = "inherits"
    DOCUMENTS = "documents"
    MENTIONS = "mentions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """From a symbol of a file (its whole, if `symbol` is empty) to a name; `line` is where it stands.

    `target` is a path or a dotted name, as the file says it: what it leads to in a session is found when asked. An
    import's symbol is the name that it binds, that of a definition the module that holds it (empty for the module
    itself, and for the file).
    """

    kind: LinkKind
    symbol: str
    target: str
    line: int
    is_path: bool = False
    """A path with a slash in front is counted from the project's root; any other one may be the end of a longer one."""

    @property
    def key(self) -> str:
        """The last part of the target: what links and definitions are matched by first."""
        return self.target.rpartition("/" if self.is_path else ".")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A layered item made from one file.

    `section` is the path of headings or the qualified name, outermost first; it feeds the context header.
    For C0 and D3 `content` is the source between the lines of `span`; other layers render their content and
    name the lines that it was made from.
    """

    layer: Layer
    title: str
    content: str
    span: Span
    section: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A document cut to the embedder's limit: the unit that is stored, ranked and cited.

    `ordinal` counts the chunks of one file and layer from 0 in source order; (path, layer, ordinal) is unique
    in an index. `context` is the deterministic header (path, section or qualified name, title), `preamble` what a chat
    model says of the chunk's place in its file, where that is asked for.
    """

    path: str
    layer: Layer
    ordinal: int
    title: str
    context: str
    content: str
    span: Span
    metadata: Mapping[str, Any] = field(default_factory=dict)
    preamble: str = ""

    @property
    def embedded_text(self) -> str:
        """What the embedder and the analyser see: the content under its preamble and its context header."""
        return "\n".join(filter(None, (self.preamble, self.context, self.content)))


def text_key_of(embedded_text: str) -> bytes:
    """16 bytes that stand for a chunk's text."""
    return hashlib.sha256(embedded_text.encode("utf-8", "replace")).digest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedChunk:
    """A chunk with its vector and its term counts: ready to be stored.

    `embedding` is None in a layer that is not embedded (`EMBEDDED_LAYERS`). `terms` are the analysed ones of
    `embedded_text`; `length` is the sum of their counts. `text_key` is `text_key_of(embedded_text)`; without it the
    vector is for this version of the file alone.
    """

    chunk: Chunk
    embedding: Vector | None
    terms: TermCounts
    text_key: bytes = b""

    @property
    def length(self) -> int:
        return self.terms.total


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobKey:
    """The name of a prepared file in the content-addressed cache."""

    tenant: str
    repo_id: str
    path: str
    blob_sha: str
    pipeline_version: str
    embedding_model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBlob:
    """A file's chunks, embedded, with its bytes and links; `notes` are worth showing (say, a syntax error).

    `usage` is what a chat model used for its preambles.
    """

    key: BlobKey
    source: bytes
    chunks: tuple[EmbeddedChunk, ...]
    links: tuple[Link, ...] = ()
    notes: tuple[Note, ...] = ()
    usage: ModelUsage = field(default_factory=ModelUsage)
