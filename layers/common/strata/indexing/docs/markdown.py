"""Markdown, also that of notebooks → D1 to D4, with the blocks that CommonMark sees (and tables).

A section runs from its heading to the next heading that stands outside every list and quote. What looks like one
inside a fence, an HTML comment or a list is text. A section that holds nothing but its heading, above a deeper one,
reads on into that one's first lines, so that no chunk is a bare heading where there is text to show.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from markdown_it import MarkdownIt
from markdown_it.token import Token

from strata.indexing.docs.catalog import catalog
from strata.indexing.docs.facts import fact_documents
from strata.indexing.docs.frontmatter import Frontmatter, read_frontmatter
from strata.indexing.docs.mentions import mention_links, related_links
from strata.indexing.docs.policies import policy_documents
from strata.indexing.docs.statements import Statement
from strata.indexing.docs.windows import TOO_LARGE, parse_text
from strata.indexing.parsed import ParsedDocument, ParsedSource, Table, Whole
from strata.indexing.reading import NOTEBOOK_SUFFIX, source_lines, text_of
from strata.model.corpus import Document, Layer, Note, Span

T = TypeVar("T")

MAX_PARSED_CHARACTERS = 1_000_000
MAX_PARSED_LINES = 40_000
"""A larger file is cut into windows. Parsing takes up to 50 µs a line, and half of that a table's cell: two cells count
as a line."""
_MAX_TITLE_CHARACTERS = 200
_MAX_TITLE_MARKUP = 1_000
_MAX_SUMMARY_MARKUP = 4_000
_MAX_READ_ON_CHARACTERS = 600
_MAX_BARE_HEADINGS = 8
_MARKUP = re.compile(r"[\\`*_\[\]<&!]|\n")
_ANCHOR = re.compile(r"\s*\{#[^}\s]+\}\s*$")
_SENTENCE_END = re.compile(r"[.!?…:;。！？]['\"»”)\]*_`]*\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """`line` is 1-based; `path` holds the titles from the outermost heading to this one."""

    line: int
    last_line: int
    level: int
    title: str
    path: tuple[str, ...]


def parse_markdown(path: str, text: str) -> ParsedSource:
    if len(text) > MAX_PARSED_CHARACTERS or text.count("\n") + text.count("|") // 2 > MAX_PARSED_LINES:
        parsed = parse_text(path, text)
        return replace(parsed, notes=(TOO_LARGE,))
    lines = source_lines(text)
    frontmatter = read_frontmatter(lines)
    # The block's lines are emptied, not removed: every line keeps its number.
    body = [""] * frontmatter.line_count + lines[frontmatter.line_count :]
    tokens = _blocks().parse("\n".join(body))
    headings = tuple(_headings(tokens))
    metadata = _metadata(path, frontmatter)
    title, is_given = _title_of(path, frontmatter, headings)
    documents = [
        catalog(
            title=title,
            artifact_type=_artifact_type(path),
            frontmatter=frontmatter,
            summary=_summary(tokens),
            outline=tuple((heading.level, heading.title, heading.line) for heading in headings if heading.title),
            title_line=headings[0].line if headings and headings[0].title == title else None,
            line_count=len(lines),
        ),
        *_sections(
            _Body(
                lines=lines,
                first_line=frontmatter.line_count + 1,
                headings=headings,
                tokens=tokens,
                title=title,
                is_title_given=is_given,
                metadata=metadata,
            )
        ),
    ]
    said = _statements(tokens, lines, headings, title)
    documents += fact_documents(said, metadata, _clipped)
    documents += policy_documents(said, metadata, _clipped)
    fault = frontmatter.fault
    notes = () if fault is None else (Note(reason=f"Its frontmatter is unreadable ({fault.reason}).", line=fault.line),)
    if not any(line.strip() for line in lines):
        return ParsedSource(documents=())
    links = (
        *related_links(path, _related(lines, frontmatter)),
        *mention_links(path, _marked_up(tokens, said)),
    )
    return ParsedSource(documents=tuple(documents), links=links, notes=notes)


def _marked_up(tokens: Sequence[Token], said: Sequence[Statement]) -> list[tuple[str, int]]:
    """Inline markup with the line that it begins in: headings and all that is said, not what stands in fences."""
    texts = [(statement.text, statement.span.start) for statement in said]
    for index, token in enumerate(tokens):
        if token.type == "heading_open" and token.map:
            texts.append((tokens[index + 1].content, token.map[0] + 1))
    return sorted(texts, key=lambda text: text[1])


def _related(lines: Sequence[str], frontmatter: Frontmatter) -> dict[str, int]:
    """What the frontmatter says the document is about, with the line that names it."""
    block = list(enumerate(lines[: frontmatter.line_count], start=1))
    related: dict[str, int] = {}
    for key in ("related_docs", "related_code"):
        field = next((place for place, (_, line) in enumerate(block) if line.startswith(key)), 0)
        for name in frontmatter.fields.get(key, ()):
            related.setdefault(name, next((number for number, line in block[field:] if name in line), 1))
    return related


@cache
def _blocks() -> MarkdownIt:
    """Blocks only: inline markup is parsed where it is shown (titles, the summary)."""
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.disable(["inline", "text_join"])
    return parser


@cache
def _inline() -> MarkdownIt:
    return MarkdownIt("commonmark")


def plain(markup: str) -> str:
    """Inline markup as text on one line: links and images by their words, code without its ticks.

    >>> plain("The `run` [command](x.md) *now*")
    'The run command now'
    """
    if not _MARKUP.search(markup):
        return " ".join(markup.split())
    pieces: list[str] = []
    for token in _inline().parseInline(markup)[0].children or []:
        if token.type in ("text", "code_inline", "image", "text_special"):
            pieces.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            pieces.append(" ")
    return " ".join("".join(pieces).split())


def _clipped(markup: str) -> str:
    return plain(markup[:_MAX_SUMMARY_MARKUP])


def _headings(tokens: Sequence[Token]) -> Iterator[Heading]:
    above: list[tuple[int, str]] = []
    for index, token in enumerate(tokens):
        if token.type != "heading_open" or token.level or not token.map:
            continue
        level = int(token.tag[1:])
        title = plain(_ANCHOR.sub("", tokens[index + 1].content[:_MAX_TITLE_MARKUP]))[:_MAX_TITLE_CHARACTERS]
        while above and above[-1][0] >= level:
            above.pop()
        above.append((level, title))
        names = tuple(name for _, name in above if name)
        yield Heading(line=token.map[0] + 1, last_line=token.map[1], level=level, title=title, path=names)


def _title_of(path: str, frontmatter: Frontmatter, headings: Sequence[Heading]) -> tuple[str, bool]:
    """The document's title, and whether its author gave it in the frontmatter."""
    if title := frontmatter.fields.get("doc_title"):
        return str(title), True
    first = next((heading for heading in headings if heading.level == 1 and heading.title), None)
    first = first or next((heading for heading in headings if heading.title), None)
    return (first.title if first else path.rpartition("/")[2]), False


def _artifact_type(path: str) -> str:
    return "notebook" if path.lower().endswith(NOTEBOOK_SUFFIX) else "markdown"


def _metadata(path: str, frontmatter: Frontmatter) -> dict[str, Any]:
    metadata: dict[str, Any] = {"artifact_type": _artifact_type(path)}
    for name in ("doc_id", "doc_type", "domain", "owner", "status", "system_component"):
        if name in frontmatter.fields:
            metadata[name] = frontmatter.fields[name]
    if "tags" in frontmatter.fields:
        metadata["tags"] = list(frontmatter.fields["tags"])
    if frontmatter.fault:
        metadata["frontmatter_error"] = frontmatter.fault.text
    return metadata


def _summary(tokens: Sequence[Token]) -> tuple[str, Span] | None:
    """The first paragraph with words in it: badges and images alone say nothing."""
    for index, token in enumerate(tokens):
        if token.type != "paragraph_open" or token.level or not token.map:
            continue
        markup = tokens[index + 1].content[:_MAX_SUMMARY_MARKUP]
        children = _inline().parseInline(markup)[0].children or []
        if any(child.type in ("text", "code_inline") and child.content.strip() for child in _outside_links(children)):
            return plain(markup), Span(start=token.map[0] + 1, end=token.map[1])
    return None


def _outside_links(children: Sequence[Token]) -> Iterator[Token]:
    depth = 0
    for child in children:
        if child.type == "link_open":
            depth += 1
        elif child.type == "link_close":
            depth -= 1
        elif not depth:
            yield child


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """A file's text below its frontmatter; `first_line` is 1-based."""

    lines: Sequence[str]
    first_line: int
    headings: Sequence[Heading]
    tokens: Sequence[Token]
    title: str
    is_title_given: bool
    metadata: dict[str, Any]


def _sections(body: _Body) -> Iterator[ParsedDocument]:
    prices, wholes, tables = _cuts(body.lines, body.tokens)
    for heading, span in _section_spans(body):
        section = heading.path if heading else ()
        is_title_needed = body.is_title_given and body.title not in section[:1]
        yield ParsedDocument(
            document=Document(
                layer=Layer.D3_SECTION_INDEX,
                title=(heading.title if heading else "") or body.title,
                content=text_of(body.lines, span),
                span=span,
                section=(body.title, *section) if is_title_needed else section,
                metadata=body.metadata | ({"section": " > ".join(section)} if section else {}),
            ),
            verbatim=True,
            prices=prices,
            wholes=_inside(wholes, span, lambda whole: whole.span),
            tables=_inside(tables, span, lambda table: table.rows),
            overlaps=True,
        )


def _section_spans(body: _Body) -> Iterator[tuple[Heading | None, Span]]:
    """Each heading's lines, and before them those above the first heading; blank lines at the ends left out."""
    starts = [*(heading.line for heading in body.headings), len(body.lines) + 1]
    if span := _trimmed(body.lines, body.first_line, starts[0] - 1):
        yield None, span
    for index, heading in enumerate(body.headings):
        span = _trimmed(body.lines, heading.line, starts[index + 1] - 1)
        if span is not None:
            yield (
                heading,
                span if span.end > heading.last_line else _reading_on(body, index, span),
            )


def _inside(items: Sequence[T], outer: Span, span_of: Callable[[T], Span]) -> tuple[T, ...]:
    """Those whose lines all lie in `outer`; the items are in source order."""
    first = bisect_left(items, outer.start, key=lambda item: span_of(item).start)
    last = bisect_right(items, outer.end, key=lambda item: span_of(item).start)
    return tuple(item for item in items[first:last] if span_of(item).end <= outer.end)


def _trimmed(lines: Sequence[str], start: int, end: int) -> Span | None:
    while start <= end and not lines[start - 1].strip():
        start += 1
    while end >= start and not lines[end - 1].strip():
        end -= 1
    return Span(start=start, end=end) if start <= end else None


def _reading_on(body: _Body, index: int, span: Span) -> Span:
    """A bare heading with the first block below it, if only deeper and bare headings stand between."""
    lines, headings = body.lines, body.headings
    last = index
    while (
        last + 1 < len(headings)
        and last < index + _MAX_BARE_HEADINGS
        and headings[last + 1].level > headings[index].level
        and not any(line.strip() for line in lines[headings[last].last_line : headings[last + 1].line - 1])
    ):
        last += 1
    if last == index:
        return span
    following = headings[last + 1].line if last + 1 < len(headings) else len(lines) + 1
    end = headings[last].last_line
    while end < following - 1 and not lines[end].strip():
        end += 1
    characters = 0
    while end < following - 1 and lines[end].strip():
        characters += len(lines[end])
        if characters > _MAX_READ_ON_CHARACTERS:
            break
        end += 1
    return _trimmed(lines, span.start, end) or span


# --- what is said --------------------------------------------------------------------------------------------------


def _statements(
    tokens: Sequence[Token], lines: Sequence[str], headings: Sequence[Heading], title: str
) -> list[Statement]:
    """Paragraphs, list items and table rows, in order."""
    starts = [heading.line for heading in headings]
    said: list[Statement] = []
    items: list[str] = []  # the first lines of the list items that the present one lies in
    lead = ""
    columns: list[str] = []
    cells: list[str] = []
    row_line = 1
    for index, token in enumerate(tokens):
        kind = token.type
        if kind == "list_item_open":
            items.append("")
        elif kind == "list_item_close":
            items.pop()
        elif kind == "thead_open":
            columns = []
        elif kind == "tr_open":
            cells = []
            row_line = token.map[0] + 1 if token.map else row_line
        elif kind in ("th_open", "td_open"):
            cells.append(tokens[index + 1].content)
        elif kind == "thead_close":
            columns = cells
        elif kind == "tr_close" and tokens[index - 1].type == "td_close":
            heading = _heading_at(headings, starts, row_line)
            said.append(
                Statement(
                    kind="row",
                    text=lines[row_line - 1].strip(),
                    span=Span(start=row_line, end=row_line),
                    section=heading.path if heading else (),
                    title=(heading.title if heading else "") or title,
                    cells=tuple(zip(_padded(columns, len(cells)), cells, strict=True)),
                )
            )
        elif kind == "paragraph_open" and token.map:
            text = tokens[index + 1].content
            span = Span(start=token.map[0] + 1, end=token.map[0] + 1 + text.count("\n"))
            heading = _heading_at(headings, starts, span.start)
            if items:
                above = next((item for item in reversed(items[:-1]) if item), "") or lead
                if not items[-1]:
                    items[-1] = text.partition("\n")[0]
            said.append(
                Statement(
                    kind="item" if items else "paragraph",
                    text=text,
                    span=span,
                    section=heading.path if heading else (),
                    title=(heading.title if heading else "") or title,
                    lead=above if items else "",
                )
            )
            if not items:
                last = text.rpartition("\n")[2].strip()
                lead = last if last.endswith(":") else ""
        elif (
            token.level == 0 and token.nesting >= 0 and kind not in ("inline", "bullet_list_open", "ordered_list_open")
        ):
            lead = ""
    return said


def _heading_at(headings: Sequence[Heading], starts: Sequence[int], line: int) -> Heading | None:
    index = bisect_right(starts, line) - 1
    return headings[index] if index >= 0 else None


def _padded(columns: Sequence[str], count: int) -> list[str]:
    return [*columns[:count], *[""] * (count - len(columns))]


# --- where to cut --------------------------------------------------------------------------------------------------


def _cuts(lines: Sequence[str], tokens: Sequence[Token]) -> tuple[dict[int, float], list[Whole], list[Table]]:
    """Prices by line, what stays whole, and tables."""
    prices: dict[int, float] = {}
    wholes: list[Whole] = []
    tables: list[Table] = []
    after_heading = introduces = False
    for token in tokens:
        if not token.map or token.nesting < 0 or token.type in ("inline", "thead_open", "tbody_open", "tr_open"):
            continue
        start, end = token.map[0] + 1, token.map[1]
        while end > start and not lines[end - 1].strip():
            end -= 1
        if token.type == "list_item_open":
            prices.setdefault(start, 0.1 + 0.05 * token.level)
        elif token.level == 0:
            prices[start] = 0.95 if after_heading else 0.5 if introduces else 0.0
        else:
            prices.setdefault(start, 0.3 + 0.02 * token.level)
        if token.type == "paragraph_open":
            for line in range(start + 1, end + 1):
                prices[line] = 0.4 if _SENTENCE_END.search(lines[line - 2]) else 0.7
        elif token.type in ("fence", "code_block", "html_block"):
            for line in range(start + 1, end + 1):
                prices[line] = 0.5 if not lines[line - 2].strip() else 0.8
            wholes.append(Whole(span=Span(start=start, end=end), price=10.0))
        elif token.type == "table_open":
            for line in range(start + 1, end + 1):  # the header, its rule and the first row stay together
                prices[line] = 0.2 if line > start + 2 else 2.0
            wholes.append(Whole(span=Span(start=start, end=end), price=10.0))
            if end > start + 1:
                header = lines[start - 1].strip().lstrip("> ")
                tables.append(Table(rows=Span(start=start + 2, end=end), header=header))
        if token.level == 0:
            after_heading = token.type == "heading_open"
            introduces = token.type == "paragraph_open" and lines[end - 1].rstrip().endswith(":")
    return prices, wholes, tables
