"""The sentences of a run of comment lines."""

from __future__ import annotations

import re

from strata.answering.passages.passage import Line, Passage, PassageKind
from strata.answering.passages.sentences import sentences


def comment_passages(
    text: str, lines: list[Line], index: int, sign: re.Pattern[str], heading: str
) -> tuple[int, list[Passage]]:
    """The sentences of the comment lines from `index` on, and the index of the line after them."""
    match = sign.match(lines[index].text)
    start = lines[index].start + (match.end() if match else 0)
    last = index
    while last + 1 < len(lines) and sign.match(lines[last + 1].text) and lines[last + 1].text.strip(" \t#/*-;"):
        last += 1
    return last + 1, list(sentences(text, start, lines[last].end, PassageKind.DOCUMENTATION, heading))
