"""A source's lines → passages: the sentences, items, rows, comments and code lines that an answer can quote.

A passage names the characters that it was read from, so a quote is always a slice of the source; `text` is what a
person reads: one line, without list marks and comment signs. Reading is line by line and forgiving, because a piece
may begin or end in the middle of a definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath

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


_PROSE_SUFFIXES = frozenset({"", ".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc", ".org", ".text"})
_PROSE_NAMES = frozenset({"license", "readme", "notice", "authors", "changelog", "contributing", "copying"})


def passages(path: str, text: str) -> list[Passage]:
    """The passages of a piece of the file at `path`, in source order; lines of `text` end with a line feed.

    >>> [passage.text for passage in passages("a.md", "# Jobs\\n- A lease lasts 60 s. It can be\\n  renewed.")]
    ['Jobs', 'A lease lasts 60 s.', 'It can be renewed.']
    """
    name = PurePosixPath(path)
    suffix = name.suffix.lower()
    if suffix in (".py", ".pyi"):
        found = _python(text)
    elif suffix in _PROSE_SUFFIXES and (suffix or name.name.lower() in _PROSE_NAMES):
        found = _prose(text)
    else:
        found = _other_code(text)
    return [passage for passage in found if any(character.isalnum() for character in passage.text)]


# --- sentences -----------------------------------------------------------------------------------------------------

_END = re.compile(r"[.!?…]+[\"»”’')\]*_`]*(?=\s)|[。！？]")
_BEFORE_END = re.compile(r"[\w.]+$")
_ABBREVIATIONS = frozenset(
    re.findall(
        r"\S+",
        """e.g i.e etc vs cf al approx resp incl no fig sec ch mr mrs ms dr prof st
        т.е т.д т.п т.к т.н т.ч др пр см рис стр гл им напр ред ср г гг в вв руб млн млрд тыс""",
    )
)
_INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)


def sentence_spans(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Half-open ranges of the sentences in `text[start:end]`, outer blanks left out.

    A sentence ends at a mark that a blank follows, unless the next word is in lower case or the mark belongs to an
    abbreviation, an initial or inline code.

    >>> [text[a:b] for text in ["See e.g. Smith. Run `a. B` now! Да?"] for a, b in sentence_spans(text)]
    ['See e.g. Smith.', 'Run `a. B` now!', 'Да?']
    """
    end = len(text) if end is None else end
    code = [match.span() for match in _INLINE_CODE.finditer(text, start, end)]
    begin = start
    for mark in _END.finditer(text, start, end):
        if any(a <= mark.start() < b for a, b in code) or _goes_on(text, begin, mark, end):
            continue
        yield from _stripped(text, begin, mark.end())
        begin = mark.end()
    yield from _stripped(text, begin, end)


def _goes_on(text: str, begin: int, mark: re.Match[str], end: int) -> bool:
    after = text[mark.end() : end].lstrip(" \t\n>#*/-")
    if after[:1].islower():
        return True
    if not mark.group().startswith(".") or len(mark.group().rstrip("\"»”’')]*_`")) > 1:
        return False
    word = _BEFORE_END.search(text, max(begin, mark.start() - 24), mark.start())
    if word is None:
        return False
    before = word.group().strip(".")
    single_initial = len(before) == 1 and before.isupper()
    return single_initial or before.lower() in _ABBREVIATIONS or (before.isdigit() and word.start() == begin)


def _stripped(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end


_LINE_LEAD = re.compile(r"\n[ \t]*(?:(?://+|#+|\*|>|--|;+)(?=[ \t]|$)[ \t]*)?", re.MULTILINE)


_RULER = re.compile(r"(?:[-=*~#]){4,}")


_FIRST_LEAD = re.compile(r"(?:(?://+|#+|\*|>|--|;+|[-+•])[ \t]+)+")


def _passage(text: str, start: int, end: int, kind: PassageKind, heading: str) -> Passage:
    if not kind.is_code and not text[text.rfind("\n", 0, start) + 1 : start].strip():
        lead = _FIRST_LEAD.match(text, start, end)
        start = lead.end() if lead else start
    if end - start > MAX_PASSAGE_CHARACTERS:
        cut = text.rfind(" ", start + MAX_PASSAGE_CHARACTERS // 2, start + MAX_PASSAGE_CHARACTERS)
        end = cut if cut > 0 else start + MAX_PASSAGE_CHARACTERS
    shown = " ".join(_RULER.sub(" ", _LINE_LEAD.sub(" ", text[start:end])).split())
    return Passage(start=start, end=end, text=shown, kind=kind, heading=heading)


_ITEM_IN_DOCUMENTATION = re.compile(
    r"\n[ \t]*(?:#+|//+|\*|--)?[ \t]*(?=(?:[-*•]|\d{1,2}[.)]|:\w[^:\n]*:|>>>|\.\.)[ \t])"
)
_NOT_A_SENTENCE = re.compile(r">>>|\.\.\. |\.\. |[│├└┌─|+]{2,}|[│├└]")


def _sentences(text: str, start: int, end: int, kind: PassageKind, heading: str) -> Iterator[Passage]:
    parts = [start]
    if kind is PassageKind.DOCUMENTATION:
        parts += [item.start() for item in _ITEM_IN_DOCUMENTATION.finditer(text, start, end)]
    for part, after in zip(parts, [*parts[1:], end], strict=True):
        drawn = _NOT_A_SENTENCE.search(text, part, after)
        if drawn and kind is PassageKind.DOCUMENTATION:
            for a, b in _stripped(text, part, after):
                yield _passage(text, a, b, PassageKind.CODE, heading)
        else:
            for a, b in sentence_spans(text, part, after):
                yield _passage(text, a, b, kind, heading)


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int
    text: str

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())


def _lines(text: str) -> list[_Line]:
    lines, start = [], 0
    for line in text.split("\n"):
        lines.append(_Line(start, start + len(line), line))
        start += len(line) + 1
    return lines


# --- Markdown and plain text ---------------------------------------------------------------------------------------

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"[ \t>]*(?:[-*+][ \t]+)?(`{3,}|~{3,})")
_ITEM = re.compile(r"[ \t>]*(?:[-*+•]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_QUOTE = re.compile(r"[ \t]*>[ \t]?")
_RULE = re.compile(r"[ \t]*([-=*_~^\"'+.])\1{2,}[ \t]*$")
_TABLE_BORDER = re.compile(r"[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_NOT_TEXT = re.compile(r"[ \t]*(?:<[!/a-zA-Z]|\[?!\[|\[[^\]]+\]:[ \t])")


def _prose(text: str) -> Iterator[Passage]:
    lines = _lines(text)
    body = _frontmatter_end(lines)
    for line in lines[1 : max(body - 1, 1)]:
        if ":" in line.text or line.text.lstrip().startswith("- "):
            yield _passage(text, line.start + line.indent, line.end, PassageKind.ASSIGNMENT, "")
    reader = _ProseReader(text, fence=_open_fence(lines))
    for line in lines[body:]:
        yield from reader.read(line)
    yield from reader.flush()


def _frontmatter_end(lines: list[_Line]) -> int:
    """The number of lines that the frontmatter takes, its borders included; 0 without one."""
    if lines[0].text.strip() != "---":
        return 0
    return next((number + 1 for number, line in enumerate(lines[1:60], 1) if line.text.strip() == "---"), 0)


def _open_fence(lines: list[_Line]) -> str:
    """The fence that a piece begins inside of: an odd number of them, the first without a language."""
    fences = [fence for line in lines if (fence := _FENCE.match(line.text))]
    return fences[0][1] if len(fences) % 2 and not fences[0].string[fences[0].end() :].strip() else ""


class _ProseReader:
    """Lines of Markdown or plain text → passages; a block of lines is cut into sentences when it ends."""

    def __init__(self, text: str, *, fence: str = "") -> None:
        self._text = text
        self._headings: list[tuple[int, str]] = []
        self._block: list[_Line] = []
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
            yield from _sentences(self._text, self._block_start, end, self._block_kind, self._heading)

    def read(self, line: _Line) -> Iterator[Passage]:
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

    def _open(self, line: _Line, offset: int, kind: PassageKind) -> None:
        self._block.append(line)
        self._block_start, self._block_kind = line.start + offset, kind

    def _line_of(self, line: _Line, kind: PassageKind) -> Passage:
        return _passage(self._text, line.start + line.indent, line.end, kind, self._heading)

    def _section(self, line: _Line, heading: re.Match[str]) -> Iterator[Passage]:
        level = len(heading[1])
        self._in_list = False
        self._headings = [(depth, title) for depth, title in self._headings if depth < level]
        start, end = line.start + heading.start(2), line.start + heading.end(2)
        if start < end:
            yield _passage(self._text, start, end, PassageKind.HEADING, self._heading)
        self._headings.append((level, heading[2]))

    def _row(self, line: _Line) -> Passage:
        row = self._line_of(line, PassageKind.ROW)
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row.text.strip("| "))]
        return replace(row, text=" — ".join(cell for cell in cells if cell))


# --- Python --------------------------------------------------------------------------------------------------------

_TRIPLE = re.compile(r'"""|\'\'\'')
_DOCSTRING = re.compile(r'[ \t]*[rRuUbBfF]{0,2}("""|\'\'\')')
_DEFINITION = re.compile(r"[ \t]*(?:async[ \t]+def|def|class)[ \t]+(\w+)")
_CONSTANT = re.compile(r"[ \t]*[A-Za-z_][\w.]*(?:[ \t]*:[^=]+)?[ \t]*=(?!=)")
_COMMENT = re.compile(r"[ \t]*#+(?:[ \t]|$)")
_CODE_BEFORE = re.compile(r"^[ \t]*(?:def |class |async |import |from |@|#)|[=(,]\s*$", re.MULTILINE)
_MAX_SIGNATURE_LINES = 15


def _python(text: str) -> Iterator[Passage]:
    lines = _lines(text)
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
            index, found = _comment(text, lines, index, _COMMENT, heading)
            yield from found
        elif match := _DEFINITION.match(line.text):
            scopes[:] = [(indent, name) for indent, name in scopes if indent < line.indent]
            above = ".".join(name for _, name in scopes)
            scopes.append((line.indent, match[1]))
            last = _signature_end(lines, index)
            yield _passage(text, line.start + line.indent, lines[last].end, PassageKind.SIGNATURE, above)
            index = last + 1
        else:
            scopes[:] = [(indent, name) for indent, name in scopes if indent < line.indent]
            heading = ".".join(name for _, name in scopes)
            settled = scopes[-1][1][:1].isupper() if scopes else not line.indent
            kind = PassageKind.ASSIGNMENT if settled and _CONSTANT.match(line.text) else PassageKind.CODE
            yield _passage(text, line.start + line.indent, line.end, kind, heading)
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
    text: str, lines: list[_Line], index: int, offset: int, *, quotes: str = "", heading: str = ""
) -> tuple[int, list[Passage]]:
    """The sentences of the docstring that starts at `offset` of line `index`, and the index of the line after it."""
    found: list[Passage] = []
    start, paragraph_end = lines[index].start + offset, lines[index].start + offset
    closing = re.compile(re.escape(quotes) if quotes else _TRIPLE.pattern)

    def flush(end: int) -> None:
        if end > start:
            found.extend(_sentences(text, start, end, PassageKind.DOCUMENTATION, heading))

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


def _comment(
    text: str, lines: list[_Line], index: int, sign: re.Pattern[str], heading: str
) -> tuple[int, list[Passage]]:
    """The sentences of the comment lines from `index` on, and the index of the line after them."""
    match = sign.match(lines[index].text)
    start = lines[index].start + (match.end() if match else 0)
    last = index
    while last + 1 < len(lines) and sign.match(lines[last + 1].text) and lines[last + 1].text.strip(" \t#/*-;"):
        last += 1
    return last + 1, list(_sentences(text, start, lines[last].end, PassageKind.DOCUMENTATION, heading))


def _signature_end(lines: list[_Line], index: int) -> int:
    depth = 0
    for last in range(index, min(len(lines), index + _MAX_SIGNATURE_LINES)):
        code = lines[last].text
        depth += sum(code.count(sign) for sign in "([{") - sum(code.count(sign) for sign in ")]}")
        if depth <= 0:
            return last
    return index


# --- any other text ------------------------------------------------------------------------------------------------

_ANY_COMMENT = re.compile(r"[ \t]*(?://+!?|#+|--|;+|/\*+|\*(?!/)|<!--)(?=[ \t]|$)")
_ANY_DEFINITION = re.compile(
    r"[ \t]*(?:(?:export|default|public|private|protected|static|final|pub|async|abstract)[ \t]+)*"
    r"(?:function|func|fn|class|interface|struct|enum|trait|impl|type|def|module|CREATE|create)\b"
)
_PAIR = re.compile(r"[ \t]*-?[ \t]*[\"']?[\w.$/-]+[\"']?[ \t]*[:=](?!=)")


def _other_code(text: str) -> Iterator[Passage]:
    lines = _lines(text)
    heading = ""
    index = 0
    while index < len(lines):
        line = lines[index]
        if not line.text.strip():
            index += 1
        elif _ANY_COMMENT.match(line.text):
            index, found = _comment(text, lines, index, _ANY_COMMENT, "")  # it is about what follows
            yield from found
        else:
            kind = PassageKind.CODE
            if _ANY_DEFINITION.match(line.text):
                kind, heading = PassageKind.SIGNATURE, line.text.strip()[:120]
            elif _PAIR.match(line.text):
                kind = PassageKind.ASSIGNMENT
            yield _passage(text, line.start + line.indent, line.end, kind, heading)
            index += 1
