"""Waiting for what happens in other threads and processes."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any


def eventually(condition: Callable[[], Any], *, within_s: float = 60.0) -> Any:
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


def assert_apart(moments: Sequence[float], pause_s: float) -> None:
    """Pieces that were made this far apart arrived so: a busy machine hands some over together, a buffer all."""
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(moments))
    assert gaps[len(gaps) // 2] > pause_s / 3
    assert moments[-1] - moments[0] > pause_s * len(gaps) / 2
