"""Server-sent events: the bytes of one."""

from __future__ import annotations

import json
import re

from strata.answering.events import AnswerEvent, CitationEvent, DeltaEvent, DoneEvent, MetaEvent, SourcesEvent
from strata.contracts.asking import CitationView, DoneView, MetaView, SourceView

# Line ends to some readers (those that split with `str.splitlines`), though not to the standard: written as escapes.
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")


def sse_frame(event: AnswerEvent) -> bytes:
    """One event of an answer as a whole frame in UTF-8."""
    match event:
        case MetaEvent():
            return frame("meta", MetaView.of(event).model_dump(mode="json"))
        case SourcesEvent():
            return frame("sources", [SourceView.of(piece).model_dump(mode="json") for piece in event.sources])
        case DeltaEvent():
            return frame("delta", {"text": event.text})
        case CitationEvent():
            return frame("citation", CitationView.of(event.citation).model_dump(mode="json"))
        case DoneEvent():
            return frame("done", DoneView.of(event).model_dump(mode="json"))


def frame(name: str, data: object) -> bytes:
    """A server-sent event. JSON holds no raw line end, so the data is one line; half a character is escaped.

    >>> frame("delta", {"text": "a\\nб"})
    b'event: delta\\ndata: {"text":"a\\\\n\\xd0\\xb1"}\\n\\n'
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = _LINE_ENDS.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    return f"event: {name}\ndata: {text}\n\n".encode(errors="backslashreplace")
