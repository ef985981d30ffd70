"""Links between the files of a session, as they are shown to one caller."""

from __future__ import annotations

from dataclasses import dataclass

from strata.model.corpus import LinkKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A definition: `name` is a path or a qualified name."""

    path: str
    name: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLink:
    """A link of a session; `leads_to` is None for a name that nothing in the session defines, as far as the caller
    may know.
    """

    kind: LinkKind
    path: str
    symbol: str
    line: int
    target: str
    leads_to: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """What a file or a symbol leads to, and what leads to it; each by path and line."""

    outgoing: tuple[FoundLink, ...]
    incoming: tuple[FoundLink, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifted:
    """A document, `path`, names a file or a symbol that does not exist; `known` is the longest part that does."""

    path: str
    line: int
    name: str
    is_path: bool
    known: str | None
