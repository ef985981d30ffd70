"""Blocking work → replies that keep the deadline: an iterator of frames as an event stream, a function as its value."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from starlette.responses import StreamingResponse

from strata.contracts.frames import frame
from strata.edge.http import INTERNAL, internal_error_body, status_of
from strata.errors import DeadlineExceeded, StrataError

HEARTBEAT_S = 10.0
DEADLINE_MARGIN_S = 2.0
HEADERS = {
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
T = TypeVar("T")
_HEARTBEAT = b": still here\n\n"


@dataclass(frozen=True, slots=True)
class _Ended:
    """The iterator's end; with the error that ended it, if one did."""

    error: Exception | None = None


async def event_stream(frames: Callable[[], Iterator[bytes]], scope: Mapping[str, Any]) -> StreamingResponse:
    """The reply. `frames` is called and read in a thread of its own; a silence of `HEARTBEAT_S` gets a comment line.

    An error before the first frame is raised, so that it gets its own status; once a heartbeat or a frame has been
    sent, it becomes an `error` event. `scope["strata.deadline_ms"]` (epoch milliseconds) ends the stream with an
    `error` event `DEADLINE_MARGIN_S` before it. A reader who goes away stops the iterator at its next frame.
    """
    deadline = deadline_of(scope)
    source = _Worker(frames)
    source.start()
    try:
        first = await source.next(_shorter(HEARTBEAT_S, deadline))
        if isinstance(first, _Ended) and first.error is not None:
            raise first.error
        if first is None and _is_over(deadline):
            raise DeadlineExceeded
    except BaseException:
        source.stop()
        raise
    return StreamingResponse(
        _body(source, first, scope, deadline),
        media_type="text/event-stream",
        headers=HEADERS,
    )


async def _body(
    source: _Worker[bytes], item: bytes | _Ended | None, scope: Mapping[str, Any], deadline: float | None
) -> AsyncIterator[bytes]:
    try:
        while not isinstance(item, _Ended):
            if _is_over(deadline):
                item = _Ended(DeadlineExceeded())
                break
            yield _HEARTBEAT if item is None else item
            item = await source.next(_shorter(HEARTBEAT_S, deadline))
        if item.error is not None:
            yield _error_frame(item.error, scope)
    finally:
        source.stop()


async def within_deadline(work: Callable[[], T], scope: Mapping[str, Any]) -> T:
    """The value of a blocking function; raises `DeadlineExceeded` when it takes too long, and what it raises."""
    deadline = deadline_of(scope)
    worker = _Worker(lambda: iter([work()]))
    worker.start()
    value = await worker.next(None if deadline is None else _shorter(math.inf, deadline))
    if isinstance(value, _Ended):
        raise value.error or RuntimeError("the work has ended without a value")
    if value is None:
        raise DeadlineExceeded
    return value


def _error_frame(error: Exception, scope: Mapping[str, Any]) -> bytes:
    if isinstance(error, StrataError) and status_of(error) != 500:
        return frame("error", {"code": error.code, "message": error.message})
    body = internal_error_body(error, scope)["error"]
    return frame("error", {"code": INTERNAL, "message": body["message"]})


def deadline_of(scope: Mapping[str, Any]) -> float | None:
    """When the reply must end, by `time.monotonic`; None where the platform names no deadline."""
    deadline_ms: float | None = scope.get("strata.deadline_ms")
    if deadline_ms is None:
        return None
    return time.monotonic() + deadline_ms / 1_000 - time.time() - DEADLINE_MARGIN_S


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _shorter(wait_s: float, deadline: float | None) -> float:
    return wait_s if deadline is None else max(0.0, min(wait_s, deadline - time.monotonic()))


class _Worker(Generic[T]):
    """Values made in a daemon thread (one that hangs must not keep the process alive) and awaited in the loop."""

    def __init__(self, make: Callable[[], Iterator[T]]) -> None:
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[T | _Ended] = asyncio.Queue()
        self._stopped = threading.Event()

    def start(self) -> None:
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._run,), name="answer", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    async def next(self, wait_s: float | None) -> T | _Ended | None:
        """The next value or the end; None when there was none for `wait_s` seconds (None: as long as it takes)."""
        if wait_s is not None and wait_s <= 0 and not self._queue.empty():
            return self._queue.get_nowait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                return await self._queue.get()
        return None

    def _run(self) -> None:
        try:
            for item in self._make():
                if self._stopped.is_set():
                    break
                self._put(item)
        except Exception as error:
            self._put(_Ended(error))
        else:
            self._put(_Ended())

    def _put(self, item: T | _Ended) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has gone with its reader
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)
