"""Python → passages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from strata.answering.passages.comments import comment_passages
from strata.answering.passages.passage import Line, Passage, PassageKind, lines_of, passage_of
from strata.answering.passages.sentences import sentences

_TRIPLE = re.compile(r'"""|\'\'\'')
_DOCSTRING = re.compile(r'[ \t]*[rRuUbBfF]{0,2}("""|\'\'\')')
_DEFINITION = re.compile(r"[ \t]*(?:async[ \t]+def|def|class)[ \t]+(\w+)")
_CONSTANT = re.compile(r"[ \t]*[A-Za-z_][\w.]*(?:[ \t]*:[^=]+)?[ \t]*=(?!=)")
_COMMENT = re.compile(r"[ \t]*#+(?:[ \t]|$)")
_CODE_BEFORE = re.compile(r"^[ \t]*(?:def |class |async |import |from |@|#)|[=(,]\s*$", re.MULTILINE)
_MAX_SIGNATURE_LINES = 15


def python_passages(text: str) -> Iterator[Passage]:
    """The passages of a piece of Python, whole or cut anywhere."""
    lines = lines_of(text)
    scopes: list[tuple[int, str]] = []
    index = 0
    if _begins_inside_docstring(text):
        index, found = _docstring(text, lines, 0, 0)
        yield from found
    while index < len(lines):
        line = lines[index]
        stripped = line.text.strip()
        heading = ".".join(name for _, name in scopes)
        if not stripped:
            index += 1
        elif match := _DOCSTRING.match(line.text):
            index, found = _docstring(text, lines, index, match.end(), quotes=match[1], heading=heading)
            yield from found
        elif _COMMENT.match(line.text):
            index, found = comment_passages(text, lines, index, _COMMENT, heading)
            yield from found
        elif match := _DEFINITION.match(line.text):
            scopes[:] = [(indent, name) for indent, name in scopes if indent < line.indent]
            above = ".".join(name for _, name in scopes)
            scopes.append((line.indent, match[1]))
            last = _signature_end(lines, index)
            yield passage_of(text, line.start + line.indent, lines[last].end, PassageKind.SIGNATURE, above)
            index = last + 1
        else:
            scopes[:] = [(indent, name) for indent, name in scopes if indent < line.indent]
            heading = ".".join(name for _, name in scopes)
            settled = scopes[-1][1][:1].isupper() if scopes else not line.indent
            kind = PassageKind.ASSIGNMENT if settled and _CONSTANT.match(line.text) else PassageKind.CODE
            yield passage_of(text, line.start + line.indent, line.end, kind, heading)
            index += 1
            if len(_TRIPLE.findall(line.text)) % 2:  # a string over several lines: not prose, not code
                while index < len(lines) and not _TRIPLE.search(lines[index].text):
                    index += 1
                index += 1


def _begins_inside_docstring(text: str) -> bool:
    """Whether a piece starts in the middle of a docstring: an odd number of quotes, and no code before the first."""
    marks = list(_TRIPLE.finditer(text))
    if len(marks) % 2 == 0:
        return False
    before, after = text[: marks[0].start()], text[marks[0].end() :]
    if not before.strip():
        return bool(re.match(r"[ \t]*\n\s*(?:def |class |async |@|return |self\.|\w+ *[:=])", after))
    return not _CODE_BEFORE.search(before)


def _docstring(
    text: str, lines: list[Line], index: int, offset: int, *, quotes: str = "", heading: str = ""
) -> tuple[int, list[Passage]]:
    """The sentences of the docstring that starts at `offset` of line `index`, and the index of the line after it."""
    found: list[Passage] = []
    start, paragraph_end = lines[index].start + offset, lines[index].start + offset
    closing = re.compile(re.escape(quotes) if quotes else _TRIPLE.pattern)

    def flush(end: int) -> None:
        if end > start:
            found.extend(sentences(text, start, end, PassageKind.DOCUMENTATION, heading))

    while index < len(lines):
        line = lines[index]
        close = closing.search(text, max(line.start, start), line.end)
        if close:
            flush(close.start())
            return index + 1, found
        if not line.text.strip():
            flush(paragraph_end)
            start = line.end
        paragraph_end = line.end
        index += 1
    flush(paragraph_end)
    return index, found


def _signature_end(lines: list[Line], index: int) -> int:
    depth = 0
    for last in range(index, min(len(lines), index + _MAX_SIGNATURE_LINES)):
        code = lines[last].text
        depth += sum(code.count(sign) for sign in "([{") - sum(code.count(sign) for sign in ")]}")
        if depth <= 0:
            return last
    return index
