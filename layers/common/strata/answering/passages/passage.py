"""A passage, and the lines it is made of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

MAX_PASSAGE_CHARACTERS = 400
"""A longer sentence or line is cut at a blank: nobody reads more as a quote."""


class PassageKind(StrEnum):
    """What a passage is; prose kinds read as sentences, the others are shown as code."""

    PROSE = "prose"
    ITEM = "item"
    ROW = "row"
    HEADING = "heading"
    DOCUMENTATION = "documentation"
    SIGNATURE = "signature"
    ASSIGNMENT = "assignment"
    CODE = "code"

    @property
    def is_code(self) -> bool:
        return self in (PassageKind.SIGNATURE, PassageKind.ASSIGNMENT, PassageKind.CODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """`source[start:end]` is the quote, letter for letter; `heading` is the section or the definition around it."""

    start: int
    end: int
    text: str
    kind: PassageKind
    heading: str = ""


_LINE_LEAD = re.compile(r"\n[ \t]*(?:(?://+|#+|\*|>|--|;+)(?=[ \t]|$)[ \t]*)?", re.MULTILINE)
_RULER = re.compile(r"(?:[-=*~#]){4,}")
_FIRST_LEAD = re.compile(r"(?:(?://+|#+|\*|>|--|;+|[-+•])[ \t]+)+")


def passage_of(text: str, start: int, end: int, kind: PassageKind, heading: str) -> Passage:
    """`text[start:end]` as a passage: without the marks that lead its first line, and cut where it is too long."""
    if not kind.is_code and not text[text.rfind("\n", 0, start) + 1 : start].strip():
        lead = _FIRST_LEAD.match(text, start, end)
        start = lead.end() if lead else start
    if end - start > MAX_PASSAGE_CHARACTERS:
        cut = text.rfind(" ", start + MAX_PASSAGE_CHARACTERS // 2, start + MAX_PASSAGE_CHARACTERS)
        end = cut if cut > 0 else start + MAX_PASSAGE_CHARACTERS
    shown = " ".join(_RULER.sub(" ", _LINE_LEAD.sub(" ", text[start:end])).split())
    return Passage(start=start, end=end, text=shown, kind=kind, heading=heading)


@dataclass(frozen=True, slots=True)
class Line:
    """`text` stands at `start:end` of the source, its line feed left out."""

    start: int
    end: int
    text: str

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())


def lines_of(text: str) -> list[Line]:
    """Every line, also an empty last one: never an empty list."""
    lines, start = [], 0
    for line in text.split("\n"):
        lines.append(Line(start, start + len(line), line))
        start += len(line) + 1
    return lines
