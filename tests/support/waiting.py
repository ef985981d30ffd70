"""Waiting for what happens in other threads and processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any


def eventually(condition: Callable[[], Any], *, within_s: float = 15.0) -> Any:
    """The first true result of `condition`."""
    limit = time.monotonic() + within_s
    while not (result := condition()):
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.02)
    return result


def process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def process_is_gone(pid: int) -> bool:
    return not process_exists(pid)
