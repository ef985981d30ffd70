"""Markdown and plain text → passages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from strata.answering.passages.passage import Line, Passage, PassageKind, lines_of, passage_of
from strata.answering.passages.sentences import sentences

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"[ \t>]*(?:[-*+][ \t]+)?(`{3,}|~{3,})")
_ITEM = re.compile(r"[ \t>]*(?:[-*+•]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_QUOTE = re.compile(r"[ \t]*>[ \t]?")
_RULE = re.compile(r"[ \t]*([-=*_~^\"'+.])\1{2,}[ \t]*$")
_TABLE_BORDER = re.compile(r"[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_NOT_TEXT = re.compile(r"[ \t]*(?:<[!/a-zA-Z]|\[?!\[|\[[^\]]+\]:[ \t])")


def prose_passages(text: str) -> Iterator[Passage]:
    """The passages of Markdown or plain text; frontmatter reads as assignments."""
    lines = lines_of(text)
    body = _frontmatter_end(lines)
    for line in lines[1 : max(body - 1, 1)]:
        if ":" in line.text or line.text.lstrip().startswith("- "):
            yield passage_of(text, line.start + line.indent, line.end, PassageKind.ASSIGNMENT, "")
    reader = _ProseReader(text, fence=_open_fence(lines))
    for line in lines[body:]:
        yield from reader.read(line)
    yield from reader.flush()


def _frontmatter_end(lines: list[Line]) -> int:
    """The number of lines that the frontmatter takes, its borders included; 0 without one."""
    if lines[0].text.strip() != "---":
        return 0
    return next((number + 1 for number, line in enumerate(lines[1:60], 1) if line.text.strip() == "---"), 0)


def _open_fence(lines: list[Line]) -> str:
    """The fence that a piece begins inside of: an odd number of them, the first without a language."""
    fences = [fence for line in lines if (fence := _FENCE.match(line.text))]
    return fences[0][1] if len(fences) % 2 and not fences[0].string[fences[0].end() :].strip() else ""


class _ProseReader:
    """Lines of Markdown or plain text → passages; a block of lines is cut into sentences when it ends."""

    def __init__(self, text: str, *, fence: str = "") -> None:
        self._text = text
        self._headings: list[tuple[int, str]] = []
        self._block: list[Line] = []
        self._block_start, self._block_kind = 0, PassageKind.PROSE
        self._fence = fence
        self._in_list = False

    @property
    def _heading(self) -> str:
        return " > ".join(title for _, title in self._headings)

    def flush(self) -> Iterator[Passage]:
        if self._block:
            end = self._block[-1].end
            self._block.clear()
            yield from sentences(self._text, self._block_start, end, self._block_kind, self._heading)

    def read(self, line: Line) -> Iterator[Passage]:
        stripped = line.text.strip()
        fence = _FENCE.match(line.text)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not stripped.strip("`~> "):
                self._fence = ""
            elif stripped:
                yield self._line_of(line, PassageKind.CODE)
        elif fence:
            yield from self.flush()
            self._fence = fence[1]
        elif not stripped or _RULE.match(line.text) or _NOT_TEXT.match(line.text):
            yield from self.flush()
        elif heading := _HEADING.match(line.text):
            yield from self.flush()
            yield from self._section(line, heading)
        elif stripped.startswith("|") or stripped.count("|") > 1:
            yield from self.flush()
            if not _TABLE_BORDER.match(line.text):
                yield self._row(line)
        elif item := _ITEM.match(line.text):
            yield from self.flush()
            self._in_list = True
            self._open(line, item.end(), PassageKind.ITEM)
        elif self._block:
            self._block.append(line)
        elif not self._in_list and line.text.startswith(("    ", "\t")):
            yield self._line_of(line, PassageKind.CODE)
        else:
            self._in_list = self._in_list and line.indent > 0
            quote = _QUOTE.match(line.text)
            self._open(line, quote.end() if quote else line.indent, PassageKind.PROSE)

    def _open(self, line: Line, offset: int, kind: PassageKind) -> None:
        self._block.append(line)
        self._block_start, self._block_kind = line.start + offset, kind

    def _line_of(self, line: Line, kind: PassageKind) -> Passage:
        return passage_of(self._text, line.start + line.indent, line.end, kind, self._heading)

    def _section(self, line: Line, heading: re.Match[str]) -> Iterator[Passage]:
        level = len(heading[1])
        self._in_list = False
        self._headings = [(depth, title) for depth, title in self._headings if depth < level]
        start, end = line.start + heading.start(2), line.start + heading.end(2)
        if start < end:
            yield passage_of(self._text, start, end, PassageKind.HEADING, self._heading)
        self._headings.append((level, heading[2]))

    def _row(self, line: Line) -> Passage:
        row = self._line_of(line, PassageKind.ROW)
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row.text.strip("| "))]
        return replace(row, text=" — ".join(cell for cell in cells if cell))
