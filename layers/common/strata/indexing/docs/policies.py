"""D4: one document for each rule: what must or must not be, limits, and the decisions of an ADR.

A rule is a sentence with a normative word, in English or Russian, or a sentence of a section named "Decision". Plain
"should" and «следует» are rules too, marked as recommendations. A limit needs a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from strata.indexing.docs.statements import Statement
from strata.indexing.parsed import ParsedDocument
from strata.model.corpus import Document, Layer, Span

MOST_POLICIES = 2_000
_MAX_CHARACTERS = 1_500
_MIN_WORDS = 3
_ABBREVIATION_CHARACTERS = 12

_PROHIBITION = re.compile(
    r"\b(?:must\s+not|mustn['’]t|shall\s+not|may\s+not|never|forbidden|prohibited|disallowed|(?:is|are)\s+not\s+"
    r"(?:allowed|permitted)|not\s+be\s+\w+ed\s+(?:under|in)\s+any|under\s+no\s+circumstances|"
    r"запрещ[её]н[аоы]?|запрещается|нельзя|не\s+допускается|недопустим[аоы]?|не\s+долж(?:ен|на|но|ны)|никогда)\b",
    re.IGNORECASE,
)
_OBLIGATION = re.compile(
    r"\b(?:must|shall|required|mandatory|obligatory|obliged|(?<!not\s)(?<!n't\s)(?<!n’t\s)(?:has|have)\s+to|always|"
    r"долж(?:ен|на|но|ны)|обязан[аоы]?|обязательн(?:о|а|ы|ый|ая|ое|ые)|необходимо|требуется|всегда)\b",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"\b(?:at\s+most|at\s+least|no\s+more\s+than|not\s+more\s+than|no\s+less\s+than|no\s+longer\s+than|up\s+to|max(?:imum)?|"
    r"min(?:imum)?|limit(?:s|ed)?|exceed(?:s|ed)?|cap(?:ped)?|quota|within|timeout|ttl|"
    r"не\s+(?:более|больше|менее|меньше|превыша\w+|дольше|позднее)|максимум|минимум|лимит\w*|ограничен\w*|"
    r"до\s+\d|в\s+течение)\b|[<>≤≥]=?\s*\d",
    re.IGNORECASE,
)
_RECOMMENDATION = re.compile(r"\b(?:should|recommended|следует|рекомендуется)\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d")
_DECISION_SECTION = re.compile(
    r"^(?:\d+[.)]?\s*)?(?:the\s+)?(?:decision|decisions|decision outcome|решение|решения)\b", re.I
)
_SENTENCE = re.compile(r"(?<=[.!?…。！？])[\"'»”)\]*_`]*\s+(?=[\"'«“(\[*_`]*[A-ZА-ЯЁ0-9])")
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|т\.е|т\.д|т\.п|напр|см)|\b[A-ZА-ЯЁ])\.$")


def policy_documents(
    statements: Sequence[Statement], metadata: Mapping[str, Any], plain: Callable[[str], str]
) -> Iterator[ParsedDocument]:
    """`plain` turns markup into text on one line; `metadata` is that of the file's sections."""
    count = 0
    for statement in statements:
        is_decision = bool(statement.section) and _DECISION_SECTION.match(statement.section[-1]) is not None
        for text, span in _sentences(statement):
            shown = _shown(statement, text, plain) if statement.kind == "row" else text  # the column may say "limit"
            kind = _kind(shown) or ("decision" if is_decision else None)
            if kind is None:
                continue
            content = _shown(statement, text, plain)
            if len(content.split()) < _MIN_WORDS:
                continue
            section = statement.section
            yield ParsedDocument(
                document=Document(
                    layer=Layer.D4_POLICY_INDEX,
                    title=statement.title,
                    content=content if len(content) <= _MAX_CHARACTERS else f"{content[:_MAX_CHARACTERS]}…",
                    span=span,
                    section=section,
                    metadata={**metadata, "policy_kind": kind} | ({"section": " > ".join(section)} if section else {}),
                ),
                verbatim=False,
            )
            count += 1
            if count >= MOST_POLICIES:
                return


def _kind(text: str) -> str | None:
    """
    >>> _kind("Keys must not be logged."), _kind("A name has at most 40 characters."), _kind("It may rain.")
    ('prohibition', 'limit', None)
    """
    if _PROHIBITION.search(text):
        return "prohibition"
    if _NUMBER.search(text) and _LIMIT.search(text):
        return "limit"
    if _OBLIGATION.search(text):
        return "obligation"
    return "recommendation" if _RECOMMENDATION.search(text) else None


def _shown(statement: Statement, text: str, plain: Callable[[str], str]) -> str:
    if statement.kind == "row":
        cells = [(plain(column), plain(value)) for column, value in statement.cells]
        return "; ".join(f"{column}: {value}" if column else value for column, value in cells if value)
    shown = plain(text)
    lead = plain(statement.lead).rstrip() if statement.kind == "item" else ""
    return f"{lead} {shown}" if lead.endswith(":") else shown


def _sentences(statement: Statement) -> Iterator[tuple[str, Span]]:
    """The statement's sentences with their lines; a row is one."""
    text = statement.text
    if statement.kind == "row":
        yield text, statement.span
        return
    start, line = 0, statement.span.start
    for border in (*_SENTENCE.finditer(text), None):
        end = border.start() if border else len(text)
        if border and _ABBREVIATION.search(text, max(start, end - _ABBREVIATION_CHARACTERS), end):
            continue
        piece = text[start:end]
        line += piece.count("\n", 0, len(piece) - len(piece.lstrip()))
        last = line + piece.strip().count("\n")
        if sentence := piece.strip():
            yield sentence, Span(start=min(line, statement.span.end), end=min(last, statement.span.end))
        start = border.end() if border else end
        line = last + text.count("\n", end, start)
