"""The context header that a chunk is embedded and searched with: where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from strata.indexing.chunking.weighing import Weigher
from strata.model.corpus import Document

_HEADER_SHARE = 3
"""A context header takes at most a third of the limit; a longer one is shortened."""


class Header(NamedTuple):
    """A chunk's context header, its weight, and the limit that both it and the content stay below."""

    text: str
    weight: int
    limit: int


class Headers:
    """Context headers: the path, then the section path or the qualified name."""

    def __init__(self, weigher: Weigher, limit: int) -> None:
        self._limit = limit
        self._weigher = weigher

    def of(self, path: str, document: Document) -> Header:
        lines = [line for line in header_texts(path, document) if line]
        weight = self._weight(lines)
        while lines and weight > self._limit // _HEADER_SHARE:
            longest = max(range(len(lines)), key=lambda index: len(lines[index]))
            lines[longest] = _shortened(lines[longest])
            lines = [line for line in lines if line]
            weight = self._weight(lines)
        return Header("\n".join(lines), weight, self._limit)

    def _weight(self, lines: Sequence[str]) -> int:
        return sum(self._weigher(line) for line in lines)


def header_texts(path: str, document: Document) -> tuple[str, str]:
    return path, " > ".join(document.section)


def _shortened(text: str) -> str:
    """About three quarters of it: the end says more than the beginning, in a path as in a section path.

    >>> _shortened("docs/guides/setting-up/windows.md")
    '…es/setting-up/windows.md'
    """
    kept = text.removeprefix("…")
    kept = kept[len(kept) // 4 + 1 :]
    return f"…{kept}" if kept else ""
