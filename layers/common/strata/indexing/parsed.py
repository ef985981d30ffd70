"""What a parser makes of a file: documents, and where each may be cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from strata.model.corpus import Document, Link, Note, Span

DEFAULT_PRICE = 0.9
"""The price of a cut at a line border that a parser says nothing about: inside a statement, say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Lines that belong together: where they fit into one chunk, a cut inside costs `price` more."""

    span: Span
    price: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Table rows (header excluded) that need their header, `header`, to be understood."""

    rows: Span
    header: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A definition: its qualified name inside the module and its lines, decorators included."""

    qualified_name: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocument:
    """A document and where it may be cut.

    `verbatim`: the content is the source between the lines of the span, and each chunk gets the lines that it was
    cut from; a rendered document's chunks all name the whole span. `prices` holds, by source line, the price of a
    cut before that line: 0 is the best place, 1 as bad as an empty chunk; see `DEFAULT_PRICE`. `symbols` (in source
    order, outer before inner) give a chunk its title where a document holds many definitions.
    """

    document: Document
    verbatim: bool
    prices: Mapping[int, float] = field(default_factory=dict)
    wholes: tuple[Whole, ...] = ()
    tables: tuple[Table, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    overlaps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSource:
    """A file's documents in source order within each layer, its links, and notes: what could not be made, and why."""

    documents: tuple[ParsedDocument, ...]
    links: tuple[Link, ...] = ()
    notes: tuple[Note, ...] = ()


Parser = Callable[[str, str], ParsedSource]
"""(path, decoded text) → documents. Pure; raises nothing for any text."""
