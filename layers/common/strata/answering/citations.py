"""An answer's text as it streams → text and citation markers, whatever the deltas it comes in.

A marker is `[3]`, `[1, 2]`, `[[4]]`, `【3】` or `【3†…】` outside code. What stands in a fenced block or in inline
code, and what a backslash escapes, is text: `arr[1]` in code stays as it is. A number of four digits is a year or a
size, not a source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBERS = r"[0-9]{1,3}(?: ?[,;] ?[0-9]{1,3})*"
_MARKER = re.compile(rf"\[\[ ?({_NUMBERS}) ?\]\]|\[ ?({_NUMBERS}) ?\]|【 ?({_NUMBERS}) ?(?:†[^】\n]*)?】")
_MAYBE_MARKER = re.compile(r"(?:\[\[?|【)[0-9 ,;]*(?:\]|†[^】\n]*)?")
_MAX_MARKER_CHARACTERS = 80

_LINE_LEAD = r"[ \t>]*(?:(?:[-*+]|[0-9]{1,3}[.)])[ \t]+)?"
_FENCE_OPENS = re.compile(rf"{_LINE_LEAD}(`{{3,}}(?=[^`]*$)|~{{3,}})[^\n]{{0,200}}")
_MAYBE_FENCE = re.compile(
    rf"[ \t>]*(?:[-*+]|[0-9]{{1,3}}[.)]?)?"
    rf"|{_LINE_LEAD}(?:`{{0,2}}|~{{0,2}}|`{{3,}}[^`\n]{{0,200}}|~{{3,}}[^\n]{{0,200}})"
)
_MAX_CODE_SPAN_CHARACTERS = 500
_SPECIAL = re.compile(r"[\n \\`\[【]")
_TICKS = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class Marker:
    """Source numbers as written, in order; `lead` is the blank before it, which goes when the marker goes."""

    numbers: tuple[int, ...]
    lead: str = ""


class CitationParser:
    """Deltas → text and markers. Any split of the same answer gives the same text and markers, and loses nothing.

    What is not decided yet (an open bracket, an open code span, the beginning of a line that may be a fence) is held
    back, never longer than a line or 500 characters.

    >>> parser = CitationParser()
    >>> [parser.feed(delta) for delta in ["A lease [", "1][", "2] `a[", "1]`"]], parser.finish()
    ([['A lease'], [Marker(numbers=(1,), lead=' ')], [Marker(numbers=(2,), lead=''), ' '], []], ['`a[1]`'])
    """

    def __init__(self) -> None:
        self._held = ""
        self._at_line_start = True
        self._fence = ""

    def feed(self, delta: str) -> list[str | Marker]:
        self._held += delta
        return self._scan(final=False)

    def finish(self) -> list[str | Marker]:
        """What was held back, decided as the end of the answer decides it."""
        return self._scan(final=True)

    def _scan(self, *, final: bool) -> list[str | Marker]:
        found: list[str | Marker] = []
        at, text = 0, self._held
        while at < len(text):
            if self._at_line_start:
                parts, after = self._line_start(text, at, final)
            elif self._fence:
                parts, after = self._fenced(text, at)
            else:
                parts, after = self._inline(text, at, final)
            if after is None:
                break
            for part in parts:
                if isinstance(part, str) and found and isinstance(found[-1], str):
                    found[-1] += part
                else:
                    found.append(part)
            at = after
        self._held = text[at:]
        return found

    # Each step returns what it found from `at` on and where it stopped; None: more text is needed to decide.

    def _line_start(self, text: str, at: int, final: bool) -> tuple[list[str | Marker], int | None]:
        newline = text.find("\n", at)
        ended = newline >= 0 or final
        line = text[at : newline if newline >= 0 else len(text)]
        if self._fence:
            sign = self._fence[0]
            if not ended and re.fullmatch(rf"[ \t>]*{sign}*[ \t]*", line):
                return [], None
            if ended and re.fullmatch(rf"[ \t>]*{sign}{{{len(self._fence)},}}[ \t]*", line):
                self._fence = ""
                return self._whole_line(text, at, newline)
            self._at_line_start = False
            return [], at
        if not ended and _MAYBE_FENCE.fullmatch(line):
            return [], None
        opened = _FENCE_OPENS.fullmatch(line) if ended else None
        if opened:
            self._fence = opened[1]
            return self._whole_line(text, at, newline)
        self._at_line_start = False
        return [], at

    def _whole_line(self, text: str, at: int, newline: int) -> tuple[list[str | Marker], int]:
        end = newline + 1 if newline >= 0 else len(text)
        self._at_line_start = newline >= 0
        return ([text[at:end]] if end > at else []), end

    def _fenced(self, text: str, at: int) -> tuple[list[str | Marker], int]:
        newline = text.find("\n", at)
        if newline < 0:
            return [text[at:]], len(text)
        return self._whole_line(text, at, newline)

    def _inline(self, text: str, at: int, final: bool) -> tuple[list[str | Marker], int | None]:
        match text[at]:
            case "\n":
                self._at_line_start = True
                return ["\n"], at + 1
            case "\\":
                if at + 1 == len(text) and not final:
                    return [], None
                end = at + 1 if text[at + 1 : at + 2] == "\n" else at + 2
                return [text[at:end]], min(end, len(text))
            case "`":
                return self._code_span(text, at, final)
            case " ":
                after = at
                while after < len(text) and text[after] == " ":
                    after += 1
                if after == len(text) and not final:
                    return [], None
                if text[after : after + 1] in ("[", "【"):
                    return self._marker(text, at, after, final)
                return [text[at:after]], after
            case "[" | "【":
                return self._marker(text, at, at, final)
            case _:
                special = _SPECIAL.search(text, at)
                end = special.start() if special else len(text)
                return [text[at:end]], end

    def _marker(self, text: str, lead: int, at: int, final: bool) -> tuple[list[str | Marker], int | None]:
        window = text[at : at + _MAX_MARKER_CHARACTERS]
        if found := _MARKER.match(window):
            numbers = tuple(int(number) for number in re.findall("[0-9]+", next(filter(None, found.groups()))))
            return [Marker(numbers, text[lead:at])], at + found.end()
        if not final and len(window) < _MAX_MARKER_CHARACTERS and _MAYBE_MARKER.fullmatch(window):
            return [], None
        return [text[lead : at + 1]], at + 1

    def _code_span(self, text: str, at: int, final: bool) -> tuple[list[str | Marker], int | None]:
        inside = at
        while text[inside : inside + 1] == "`":
            inside += 1
        opened = text[at:inside]
        if inside == len(text) and not final:
            return [], None
        newline = text.find("\n", inside)
        end = min(len(text) if newline < 0 else newline, inside + _MAX_CODE_SPAN_CHARACTERS)
        for run in _TICKS.finditer(text, inside):
            if run.start() >= end:
                break
            if run.end() == len(text) and not final:
                return [], None
            if len(run.group()) == len(opened):
                return [text[at : run.end()]], run.end()
        decided = final or 0 <= newline <= end or len(text) > inside + _MAX_CODE_SPAN_CHARACTERS
        return ([opened], inside) if decided else ([], None)
