"""D2: one document for each atomic statement: a list item, a table row with its header, a `key: value` line, a
definition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from strata.indexing.docs.statements import Statement
from strata.indexing.parsed import ParsedDocument
from strata.model.corpus import Document, Layer, Span

MOST_FACTS = 3_000
"""Of one file; a larger table is data, and D3 holds it."""
_MAX_CHARACTERS = 2_000
_MAX_LEAD = 160
_ONLY_A_LINK = re.compile(
    r"^\s*(?:\[[ xX]\]\s+)?!?\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])[.,;]?\s*$|^\s*<?https?://\S+>?\s*$"
)
_KEY_VALUE = re.compile(
    r"^(?P<mark>\*\*|__|`)?(?P<key>\w[\w /().#+-]{0,60}?)(?:(?P=mark))?\s?:(?(mark)(?:\*\*|__)?)\s+(?P<value>\S.*)$"
)
_BOLD_KEY = re.compile(r"^(?:\*\*|__)(?P<key>[^*_:]{1,60}):(?:\*\*|__)\s*(?P<value>\S.*)$")
_DEFINITION = re.compile(
    r"^(?:\*\*(?P<bold>[^*]{1,80})\*\*|`(?P<code>[^`]{1,80})`|(?P<bare>[\w«»\"' ()./-]{2,60}?)(?=\s[—–-]\sэто\b))"
    r"\s*(?:[—–]|-(?=\s)|:)\s*(?P<text>\S.*)$",
    re.DOTALL,
)
_MOST_KEY_WORDS = 5


def fact_documents(
    statements: Sequence[Statement], metadata: Mapping[str, Any], plain: Callable[[str], str]
) -> Iterator[ParsedDocument]:
    """`plain` turns markup into text on one line; `metadata` is that of the file's sections."""
    count = 0
    for statement in statements:
        for kind, title, content, span in _facts(statement, plain):
            yield _document(statement, kind, title or statement.title, content, span=span, metadata=metadata)
            count += 1
            if count >= MOST_FACTS:
                return


def _facts(statement: Statement, plain: Callable[[str], str]) -> Iterator[tuple[str, str, str, Span]]:
    """(kind, title, content, lines)."""
    if statement.kind == "row":
        cells = [(plain(column), plain(value)) for column, value in statement.cells]
        filled = [f"{column}: {value}" if column else value for column, value in cells if value]
        if filled:
            first = next(value for _, value in cells if value)
            yield "table_row", first[:200], "; ".join(filled), statement.span
        return
    if statement.kind == "item":
        if statement.text.strip() and not _ONLY_A_LINK.match(statement.text):
            text = plain(statement.text)
            lead = plain(statement.lead)[:_MAX_LEAD].rstrip()
            kind = "definition" if _DEFINITION.match(statement.text) else "list_item"
            if text:
                yield (
                    kind,
                    "",
                    f"{lead} {text}" if lead.endswith(":") else f"{lead}: {text}" if lead else text,
                    statement.span,
                )
        return
    yield from _of_paragraph(statement, plain)


def _of_paragraph(statement: Statement, plain: Callable[[str], str]) -> Iterator[tuple[str, str, str, Span]]:
    lines = statement.text.split("\n")
    pairs = [_pair(line.strip()) for line in lines]
    if all(pairs):
        for number, pair in enumerate(pairs, start=statement.span.start):
            if pair and (value := plain(pair[1])):
                yield "key_value", plain(pair[0]), f"{plain(pair[0])}: {value}", Span(start=number, end=number)
    elif found := _DEFINITION.match(statement.text):
        term = found["bold"] or found["code"] or found["bare"]
        yield "definition", plain(term), f"{plain(term)}: {plain(found['text'])}", statement.span


def _pair(line: str) -> tuple[str, str] | None:
    found = _BOLD_KEY.match(line) or _KEY_VALUE.match(line)
    if not found or len(found["key"].split()) > _MOST_KEY_WORDS or found["value"].startswith("//"):
        return None
    return found["key"], found["value"]


def _document(
    statement: Statement, kind: str, title: str, content: str, *, span: Span, metadata: Mapping[str, Any]
) -> ParsedDocument:
    if len(content) > _MAX_CHARACTERS:
        content = f"{content[:_MAX_CHARACTERS]}…"
    section = statement.section
    return ParsedDocument(
        document=Document(
            layer=Layer.D2_FACT_INDEX,
            title=title,
            content=content,
            span=span,
            section=section,
            metadata={**metadata, "fact_kind": kind} | ({"section": " > ".join(section)} if section else {}),
        ),
        verbatim=False,
    )
