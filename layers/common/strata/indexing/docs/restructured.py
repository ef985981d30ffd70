"""reStructuredText → D1 to D4, by its sections, lists, fields, definitions and literal blocks.

A reader of what stands at the left margin, not a docutils: directives are not run, nothing is included, and no input
is an error. A heading is a line with a line of one punctuation mark below it (and perhaps the same above); its level
is the place at which its style first appears in the file.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from strata.indexing.docs.catalog import catalog
from strata.indexing.docs.facts import fact_documents
from strata.indexing.docs.frontmatter import Frontmatter
from strata.indexing.docs.mentions import mention_links
from strata.indexing.docs.policies import policy_documents
from strata.indexing.docs.statements import Statement
from strata.indexing.docs.windows import TOO_LARGE, parse_text
from strata.indexing.parsed import ParsedDocument, ParsedSource, Whole
from strata.indexing.reading import source_lines, text_of
from strata.model.corpus import Document, Layer, Span

MAX_PARSED_LINES = 40_000
_MAX_TITLE_CHARACTERS = 200
_MAX_PLAIN_CHARACTERS = 4_000
_ADORNMENT = re.compile(r"^([!-/:-@\[-`{-~])\1*\s*$")
_MOST_TABLE_LINES = 500
_SHORTEST_UNDERLINE = 3
_LONG_UNDERLINE = 4
"""From here on a line of marks underlines a longer title too."""
_FIELD = re.compile(r"^:(?P<name>[^:\s][^:]{0,60}):(?:\s+(?P<value>.*))?$")
_ITEM = re.compile(r"^(?P<indent>\s*)(?P<mark>[-*+•]|(?:\d{1,4}|[A-Za-z]|#)[.)]|\(\w{1,4}\))\s+(?=\S)")
_COMMENT_OR_DIRECTIVE = re.compile(r"^\.\.(?:\s|$)")
_DIRECTIVE = re.compile(r"^\.\.\s+(?P<name>[\w:-]+)::(?:\s+(?P<argument>.*))?$")
_READ_DIRECTIVES = frozenset(
    ("note", "warning", "important", "tip", "hint", "attention", "caution", "danger", "error", "admonition", "seealso",
     "topic", "sidebar", "deprecated", "versionadded", "versionchanged")
)  # fmt: skip
_TABLE = re.compile(r"^\s*(?:\+[-=]|=+(?:\s+=+)+\s*$)")
_ROLE = re.compile(r":[\w:+.-]{1,80}:`([^`]*)`")
_LINK = re.compile(r"`([^`<]*?)\s*<[^`>]*>`_{0,2}")
_LITERAL = re.compile(r"``([^`]+)``")
_INTERPRETED = re.compile(r"`([^`]+)`_{0,2}")
_EMPHASIS = re.compile(r"\*{1,2}([^*\s](?:[^*]*[^*\s])?)\*{1,2}")
_TYPED_FIELDS = {
    "id": "doc_id", "owner": "owner", "author": "owner", "status": "status", "domain": "domain",
    "doc_type": "doc_type", "system_component": "system_component",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heading:
    """`line` is the first of its lines (an overline counts), `last_line` the underline."""

    line: int
    last_line: int
    level: int
    title: str
    path: tuple[str, ...]


def parse_restructured(path: str, text: str) -> ParsedSource:
    lines = source_lines(text)
    if len(lines) > MAX_PARSED_LINES:
        parsed = parse_text(path, text)
        return ParsedSource(documents=parsed.documents, links=parsed.links, notes=(TOO_LARGE,))
    filled = [number for number, line in enumerate(lines, start=1) if line.strip()]
    if not filled:
        return ParsedSource(documents=())
    headings = list(_headings(lines))
    title = next((heading.title for heading in headings), path.rpartition("/")[2])
    blocks = list(_blocks(lines, headings))
    fields = _document_fields(blocks, headings)
    metadata: dict[str, Any] = {"artifact_type": "restructuredtext", **fields}
    said = list(_statements(blocks, headings, title))
    summary = next(
        ((plain(block.text), block.span) for block in blocks if block.kind == "paragraph" and plain(block.text)), None
    )
    documents = [
        catalog(
            title=title,
            artifact_type="restructuredtext",
            frontmatter=Frontmatter(fields=fields),
            summary=summary,
            outline=tuple((heading.level, heading.title, heading.line) for heading in headings),
            title_line=headings[0].line if headings else None,
            line_count=len(lines),
        ),
        *_sections(lines, headings, blocks, title, metadata),
        *fact_documents(said, metadata, plain),
        *policy_documents(said, metadata, plain),
    ]
    texts = ((_backticked(block.text), block.span.start) for block in blocks if block.text)
    return ParsedSource(documents=tuple(documents), links=tuple(mention_links(path, texts)))


def _backticked(text: str) -> str:
    """Literals and roles as Markdown would mark them: one backtick, without the role and its `~`."""
    return _ROLE.sub(lambda found: f"`{_link_text(found[1])}`", _LITERAL.sub(r"`\1`", text))


def plain(markup: str) -> str:
    """Inline markup as text on one line.

    >>> plain("Use :func:`run` with ``-x``, *now*; see `the guide <guide.html>`_.")
    'Use run with -x, now; see the guide.'
    """
    text = markup[:_MAX_PLAIN_CHARACTERS]
    text = _LITERAL.sub(r"\1", text)
    text = _LINK.sub(r"\1", _ROLE.sub(lambda found: _link_text(found[1]), text))
    text = _EMPHASIS.sub(r"\1", _INTERPRETED.sub(r"\1", text))
    return " ".join(text.split())


def _link_text(text: str) -> str:
    return (text.partition("<")[0].strip() or text.strip("<>")).lstrip("~!")


def _headings(lines: Sequence[str]) -> Iterator[_Heading]:
    styles: list[str] = []
    above: list[tuple[int, str]] = []
    number = 0  # the line that is looked at, from 0
    while number + 1 < len(lines):
        found = _heading_at(lines, number)
        if found is None:
            number += 1
            continue
        style, title_at, last = found
        if style not in styles:
            styles.append(style)
        level = styles.index(style) + 1
        title = plain(lines[title_at])[:_MAX_TITLE_CHARACTERS]
        while above and above[-1][0] >= level:
            above.pop()
        above.append((level, title))
        names = tuple(name for _, name in above)
        yield _Heading(line=number + 1, last_line=last + 1, level=level, title=title, path=names)
        number = last + 1


def _heading_at(lines: Sequence[str], number: int) -> tuple[str, int, int] | None:
    """(style, index of the title's line, index of the last line)."""
    line = lines[number].rstrip()
    if not line:
        return None
    if over := _ADORNMENT.match(line):
        if number + 2 >= len(lines) or lines[number + 2].rstrip() != line or len(line) < _SHORTEST_UNDERLINE:
            return None
        title = lines[number + 1].rstrip()
        is_title = title.strip() and not _ADORNMENT.match(title) and len(title) <= len(line) + 1
        return (over[1] * 2, number + 1, number + 2) if is_title else None
    before = lines[number - 1].strip() if number else ""
    under = _ADORNMENT.match(lines[number + 1])
    if under is None or line[0].isspace() or (before and not _ADORNMENT.match(before)):
        return None
    length = len(lines[number + 1].rstrip())
    is_long = length >= _LONG_UNDERLINE or length >= max(_SHORTEST_UNDERLINE, len(line))
    return (under[1], number, number + 1) if is_long else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """`text` has the lines without their indentation."""

    kind: Literal["paragraph", "item", "field", "definition", "literal", "directive", "table"]
    text: str
    span: Span
    indent: int


def _blocks(lines: Sequence[str], headings: Sequence[_Heading]) -> Iterator[_Block]:
    """Runs of lines between blank ones, cut at list items and fields; a literal block and a directive are one each."""
    heading_lines = {line for heading in headings for line in range(heading.line, heading.last_line + 1)}
    number, literal_above = 1, -1  # `literal_above`: the indentation of the paragraph that ended with `::`
    while number <= len(lines):
        line = lines[number - 1]
        if not line.strip() or number in heading_lines:
            literal_above = -1 if number in heading_lines else literal_above
            number += 1
            continue
        indent = _indent(line)
        if 0 <= literal_above < indent:
            end = _indented_until(lines, number, literal_above)
            block = _Block(kind="literal", text="", span=Span(start=number, end=end), indent=indent)
        elif _COMMENT_OR_DIRECTIVE.match(line.lstrip()):
            block = _directive(lines, number, indent)
        else:
            block = _run(lines, number, heading_lines)
        is_text = block.kind in ("paragraph", "item", "definition")
        literal_above = indent if is_text and block.text.rstrip().endswith("::") else -1
        yield block
        number = block.span.end + 1


def _directive(lines: Sequence[str], number: int, indent: int) -> _Block:
    """A note's text is read on as text; what another directive or a comment holds is one block."""
    directive = _DIRECTIVE.match(lines[number - 1].strip())
    if directive and directive["name"] in _READ_DIRECTIVES:
        argument = (directive["argument"] or "").strip()
        is_text = bool(argument) and not argument[0].isdigit()
        kind: Literal["paragraph", "directive"] = "paragraph" if is_text else "directive"
        return _Block(kind=kind, text=argument, span=Span(start=number, end=number), indent=indent)
    end = max(number, _indented_until(lines, number + 1, indent))
    return _Block(kind="directive", text="", span=Span(start=number, end=end), indent=indent)


def _run(lines: Sequence[str], number: int, heading_lines: Container[int]) -> _Block:
    first = lines[number - 1]
    indent = _indent(first)
    is_start = _starts(first)
    end = number
    while end < len(lines) and lines[end].strip() and end + 1 not in heading_lines and not _starts(lines[end]):
        if end == number and not is_start and _indent(lines[end]) > indent:
            break  # a term, and its definition below it
        end += 1
    kind: Literal["paragraph", "item", "field", "definition", "table"] = "paragraph"
    if is_start:
        kind = "item" if _ITEM.match(first) else "field"
    elif _TABLE.match(first):
        kind, end = "table", _table_until(lines, number)
    elif end == number < len(lines) and lines[end].strip() and _indent(lines[end]) > indent:
        kind, end = "definition", _paragraph_until(lines, end + 1)
    text = "\n".join(part.strip() for part in lines[number - 1 : end])
    return _Block(kind=kind, text=text, span=Span(start=number, end=end), indent=indent)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _starts(line: str) -> bool:
    """Whether the line begins a list item or a field: no blank line is needed before one."""
    return bool(_ITEM.match(line) or _FIELD.match(line.strip()))


def _indented_until(lines: Sequence[str], number: int, indent: int) -> int:
    """The last line with text of the run that begins at `number` and is indented by more than `indent`; the line
    before `number` if there is none."""
    last = number - 1
    while number <= len(lines) and (not lines[number - 1].strip() or _indent(lines[number - 1]) > indent):
        if lines[number - 1].strip():
            last = number
        number += 1
    return last


def _paragraph_until(lines: Sequence[str], number: int) -> int:
    while number < len(lines) and lines[number].strip():
        number += 1
    return number


def _table_until(lines: Sequence[str], number: int) -> int:
    """A simple table ends with the first border that nothing stands right below; blank lines in it are allowed."""
    border = lines[number - 1].rstrip()
    if border.lstrip().startswith("="):
        for last in range(number + 1, min(len(lines), number + _MOST_TABLE_LINES) + 1):
            if lines[last - 1].rstrip() == border and (last == len(lines) or not lines[last].strip()):
                return last
    return _paragraph_until(lines, number)


def _document_fields(blocks: Sequence[_Block], headings: Sequence[_Heading]) -> dict[str, str]:
    """Typed fields of the list at the head of the file, before or right below the title."""
    end = headings[1].line if len(headings) > 1 else None
    fields: dict[str, str] = {}
    for block in blocks:
        if block.kind != "field" or (end and block.span.start >= end):
            break
        found = _FIELD.match(block.text.partition("\n")[0])
        if found and (name := _TYPED_FIELDS.get(found["name"].strip().lower().replace(" ", "_"))):
            fields.setdefault(name, plain(found["value"] or "")[:500])
    return {name: value for name, value in fields.items() if value}


def _statements(blocks: Sequence[_Block], headings: Sequence[_Heading], title: str) -> Iterator[Statement]:
    current = -1
    lead = ""
    for block in blocks:
        while current + 1 < len(headings) and headings[current + 1].line <= block.span.start:
            current += 1
            lead = ""
        section = headings[current].path if current >= 0 else ()
        name = headings[current].title if current >= 0 else title
        if block.kind == "paragraph":
            last = block.text.rstrip()
            lead = last.rpartition("\n")[2] if last.endswith(":") and not last.endswith("::") else ""
            yield Statement(kind="paragraph", text=block.text, span=block.span, section=section, title=name)
        elif block.kind == "item":
            text = _ITEM.sub("", block.text, count=1)
            yield Statement(kind="item", text=text, span=block.span, section=section, title=name, lead=lead)
        elif block.kind in ("field", "definition"):
            if block.kind == "field":
                found = _FIELD.match(block.text.partition("\n")[0])
                column = found["name"] if found else ""
                value = f"{(found['value'] or '') if found else ''}\n{block.text.partition(chr(10))[2]}"
            else:
                column, _, value = block.text.partition("\n")
            yield Statement(
                kind="row", text=block.text, span=block.span, section=section, title=name, cells=((column, value),)
            )
        else:
            lead = ""


def _sections(
    lines: Sequence[str],
    headings: Sequence[_Heading],
    blocks: Sequence[_Block],
    title: str,
    metadata: dict[str, Any],
) -> Iterator[ParsedDocument]:
    prices, wholes = _cuts(lines, headings, blocks)
    starts = [1, *(heading.line for heading in headings), len(lines) + 1]
    for index, first in enumerate(starts[:-1]):
        heading = headings[index - 1] if index else None
        filled = [number for number in range(first, starts[index + 1]) if lines[number - 1].strip()]
        if not filled:
            continue
        section = heading.path if heading else ()
        span = Span(start=filled[0], end=filled[-1])
        yield ParsedDocument(
            document=Document(
                layer=Layer.D3_SECTION_INDEX,
                title=heading.title if heading and heading.title else title,
                content=text_of(lines, span),
                span=span,
                section=section,
                metadata=metadata | ({"section": " > ".join(section)} if section else {}),
            ),
            verbatim=True,
            prices=prices,
            wholes=_inside(wholes, span),
            overlaps=True,
        )


def _inside(wholes: Sequence[Whole], span: Span) -> tuple[Whole, ...]:
    first = bisect_left(wholes, span.start, key=lambda whole: whole.span.start)
    last = bisect_right(wholes, span.end, key=lambda whole: whole.span.start)
    return tuple(whole for whole in wholes[first:last] if whole.span.end <= span.end)


def _cuts(
    lines: Sequence[str], headings: Sequence[_Heading], blocks: Sequence[_Block]
) -> tuple[dict[int, float], list[Whole]]:
    prices: dict[int, float] = {}
    wholes: list[Whole] = []
    after_heading = {heading.last_line + 1 for heading in headings} | {heading.last_line + 2 for heading in headings}
    for block in blocks:
        start, end = block.span.start, block.span.end
        price = min(0.5, 0.03 * block.indent + (0.1 if block.kind in ("item", "field") else 0.0))
        prices[start] = 0.95 if start in after_heading else 0.5 if block.kind == "literal" else price
        if block.kind in ("literal", "directive", "table"):
            for line in range(start + 1, end + 1):
                prices[line] = 0.5 if not lines[line - 2].strip() else 0.8
            wholes.append(Whole(span=block.span, price=10.0))
        else:
            for line in range(start + 1, end + 1):
                prices[line] = 0.4 if lines[line - 2].rstrip().endswith((".", "!", "?", "…", ":")) else 0.7
    return prices, wholes
