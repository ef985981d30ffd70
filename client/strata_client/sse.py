"""Server-sent events, read as the bytes arrive."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event. `id` is the last id that the stream has named so far, on this event or before it."""

    name: str
    data: str
    id: str


class SseParser:
    """Bytes → events, whatever the chunks they come in.

    A chunk may end inside a character, between `\\r` and `\\n`, or inside a field. Comment lines and unknown fields are
    passed over; an event without data is dropped; what is unfinished when the stream ends was never an event.

    >>> parser = SseParser()
    >>> parser.feed(b'id: 1\\nda'), parser.feed(b'ta: hello\\n\\n')
    ([], [SseEvent(name='message', data='hello', id='1')])
    """

    def __init__(self) -> None:
        self.last_event_id = ""
        """The id of the last whole event: what `Last-Event-ID` must say after a break."""
        self.retry_ms: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._at_start = True
        self._after_return = False
        self._line: list[str] = []
        self._name = ""
        self._data: list[str] = []
        self._id = ""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that this chunk completes, in order."""
        text = self._decoder.decode(chunk)
        if not text:
            return []
        if self._at_start:
            self._at_start = False
            text = text.removeprefix("\ufeff")
        if self._after_return:
            text = text.removeprefix("\n")
        self._after_return = text.endswith("\r") if text else False
        events = []
        *whole, rest = _LINE_END.split(text)
        for part in whole:
            self._line.append(part)
            line = "".join(self._line)
            self._line.clear()
            if event := self._take(line):
                events.append(event)
        if rest:
            self._line.append(rest)
        return events

    def _take(self, line: str) -> SseEvent | None:
        """Read one line; the empty one ends an event."""
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        elif field == "id" and "\0" not in value:
            self._id = value
        elif field == "retry" and value.isascii() and value.isdigit():
            self.retry_ms = int(value)
        return None

    def _dispatch(self) -> SseEvent | None:
        name, data = self._name or "message", self._data
        self._name, self._data = "", []
        self.last_event_id = self._id
        return SseEvent(name, "\n".join(data), self.last_event_id) if data else None
