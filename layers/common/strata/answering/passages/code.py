"""Code of any other language, and data → passages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from strata.answering.passages.comments import comment_passages
from strata.answering.passages.passage import Passage, PassageKind, lines_of, passage_of

_ANY_COMMENT = re.compile(r"[ \t]*(?://+!?|#+|--|;+|/\*+|\*(?!/)|<!--)(?=[ \t]|$)")
_ANY_DEFINITION = re.compile(
    r"[ \t]*(?:(?:export|default|public|private|protected|static|final|pub|async|abstract)[ \t]+)*"
    r"(?:function|func|fn|class|interface|struct|enum|trait|impl|type|def|module|CREATE|create)\b"
)
_PAIR = re.compile(r"[ \t]*-?[ \t]*[\"']?[\w.$/-]+[\"']?[ \t]*[:=](?!=)")


def code_passages(text: str) -> Iterator[Passage]:
    """The passages of a piece in any other language."""
    lines = lines_of(text)
    heading = ""
    index = 0
    while index < len(lines):
        line = lines[index]
        if not line.text.strip():
            index += 1
        elif _ANY_COMMENT.match(line.text):
            index, found = comment_passages(text, lines, index, _ANY_COMMENT, "")  # it is about what follows
            yield from found
        else:
            kind = PassageKind.CODE
            if _ANY_DEFINITION.match(line.text):
                kind, heading = PassageKind.SIGNATURE, line.text.strip()[:120]
            elif _PAIR.match(line.text):
                kind = PassageKind.ASSIGNMENT
            yield passage_of(text, line.start + line.indent, line.end, kind, heading)
            index += 1
