"""An event on its way through a function process, and the parts of the reply, in order."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffered:
    """A whole reply: what the handler returned, as JSON."""

    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The head of a streamed reply. `headers` may repeat a name; cookies are among them."""

    status: int
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The next bytes of a streamed reply's body."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The streamed reply is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The invocation ended without a (whole) reply; `error_type` is what Lambda would report."""

    error_type: str
    message: str
    detail: Mapping[str, Any] = field(default_factory=dict)


Part = Buffered | Started | Piece | Ended | Failed


class Invocation:
    """One event on its way through a function process, and the parts of the reply."""

    def __init__(self, event: bytes, *, timeout_s: float) -> None:
        self.request_id = str(uuid.uuid4())
        self.invocation_id = uuid.uuid4().hex
        self.event = event
        self.timeout_s = timeout_s
        self.deadline: float | None = None
        self.ended = threading.Event()
        self._parts: queue.SimpleQueue[Part] = queue.SimpleQueue()
        self._lock = threading.Lock()

    def hand_over(self) -> int:
        """The process has taken the event: its time runs from now. Returns the deadline in epoch milliseconds."""
        self.deadline = time.monotonic() + self.timeout_s
        return int((time.time() + self.timeout_s) * 1000)

    def emit(self, part: Part) -> None:
        """Add a part; nothing follows the last one (whoever ends an invocation first is right)."""
        with self._lock:
            if self.ended.is_set():
                return
            self._parts.put(part)
            if isinstance(part, Buffered | Ended | Failed):
                self.ended.set()

    def next_part(self, timeout_s: float) -> Part | None:
        """The next part, or None when none came in time."""
        try:
            return self._parts.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None
