"""A limit on what a question waits for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(limit_s: float, call: Callable[[], T]) -> T:
    """The call's result, or what it raises; `TimeoutError` when neither comes in time.

    The call then goes on by itself, in a thread that nobody waits for, and its result is dropped.
    """
    done: queue.SimpleQueue[tuple[bool, T | BaseException]] = queue.SimpleQueue()

    def work() -> None:
        try:
            done.put((True, call()))
        except BaseException as error:  # handed to whoever waits
            done.put((False, error))

    threading.Thread(target=work, name="within", daemon=True).start()
    try:
        succeeded, result = done.get(timeout=limit_s)
    except queue.Empty:
        raise TimeoutError(f"no result within {limit_s:g} s") from None
    if not succeeded:
        raise result  # type: ignore[misc]
    return result  # type: ignore[return-value]
