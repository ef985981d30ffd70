"""Calls that are worth repeating are repeated, with growing pauses of random length."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from strata.errors import HandedOver, TemporaryError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """`attempts` counts all calls. Pause n is drawn between 0 and `first_pause_s * 2**n`, at most `longest_pause_s`."""

    attempts: int = 4
    first_pause_s: float = 0.5
    longest_pause_s: float = 8.0
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = random.random

    def pause_s(self, retry: int) -> float:
        """Before retry 0, 1, …: full jitter, so that those who failed together do not come back together."""
        return self.draw() * min(self.longest_pause_s, self.first_pause_s * float(2 ** min(retry, 30)))


def is_temporary(error: BaseException) -> bool:
    """A `TemporaryError` or an operating system's (`TimeoutError`, `ConnectionError`, `OSError`); not a hand-over."""
    return isinstance(error, (TemporaryError, OSError)) and not isinstance(error, HandedOver)


def retried(
    call: Callable[[], T], policy: RetryPolicy, *, before_retry: Callable[[Exception], None] = lambda _: None
) -> T:
    """The call's result, after at most `policy.attempts` calls; the last temporary error comes through.

    `before_retry` runs after each pause and may raise to stop.
    """
    for retry in range(policy.attempts - 1):
        try:
            return call()
        except Exception as error:
            if not is_temporary(error):
                raise
            policy.sleep(policy.pause_s(retry))
            before_retry(error)
    return call()
