"""Where a sentence ends."""

from __future__ import annotations

import re
from collections.abc import Iterator

from strata.answering.passages.passage import Passage, PassageKind, passage_of

_END = re.compile(r"[.!?…]+[\"»”’')\]*_`]*(?=\s)|[。！？]")
_BEFORE_END = re.compile(r"[\w.]+$")
_ABBREVIATIONS = frozenset(
    re.findall(
        r"\S+",
        """e.g i.e etc vs cf al approx resp incl no fig sec ch mr mrs ms dr prof st
        т.е т.д т.п т.к т.н т.ч др пр см рис стр гл им напр ред ср г гг в вв руб млн млрд тыс""",
    )
)
_LABEL = re.compile(r"(\*\*|__)(?:[^\s*_]+[ \t]+){0,2}[^\s*_]+\1")
"""A heading that runs in, as in "**Order.** Jobs run …": at most three words, and no sentence of its own."""
_INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)


def sentence_spans(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Half-open ranges of the sentences in `text[start:end]`, outer blanks left out.

    A sentence ends at a mark that a blank follows, unless the next word is in lower case or the mark belongs to an
    abbreviation, an initial, inline code or a label in bold.

    >>> [text[a:b] for text in ["See e.g. Smith. Run `a. B` now! Да?"] for a, b in sentence_spans(text)]
    ['See e.g. Smith.', 'Run `a. B` now!', 'Да?']
    """
    end = len(text) if end is None else end
    code = [match.span() for match in _INLINE_CODE.finditer(text, start, end)]
    begin = start
    for mark in _END.finditer(text, start, end):
        if any(a <= mark.start() < b for a, b in code) or _goes_on(text, begin, mark, end):
            continue
        yield from stripped(text, begin, mark.end())
        begin = mark.end()
    yield from stripped(text, begin, end)


def _goes_on(text: str, begin: int, mark: re.Match[str], end: int) -> bool:
    if _LABEL.fullmatch(text[begin : mark.end()].strip()):
        return True
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


def stripped(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The range without its outer blanks; nothing where only blanks are."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end


_ITEM_IN_DOCUMENTATION = re.compile(
    r"\n[ \t]*(?:#+|//+|\*|--)?[ \t]*(?=(?:[-*•]|\d{1,2}[.)]|:\w[^:\n]*:|>>>|\.\.)[ \t])"
)
_NOT_A_SENTENCE = re.compile(r">>>|\.\.\. |\.\. |[│├└┌─|+]{2,}|[│├└]")


def sentences(text: str, start: int, end: int, kind: PassageKind, heading: str) -> Iterator[Passage]:
    """The sentences of `text[start:end]` as passages; in documentation, items begin anew and drawings are code."""
    parts = [start]
    if kind is PassageKind.DOCUMENTATION:
        parts += [item.start() for item in _ITEM_IN_DOCUMENTATION.finditer(text, start, end)]
    for part, after in zip(parts, [*parts[1:], end], strict=True):
        drawn = _NOT_A_SENTENCE.search(text, part, after)
        if drawn and kind is PassageKind.DOCUMENTATION:
            for a, b in stripped(text, part, after):
                yield passage_of(text, a, b, PassageKind.CODE, heading)
        else:
            for a, b in sentence_spans(text, part, after):
                yield passage_of(text, a, b, kind, heading)
