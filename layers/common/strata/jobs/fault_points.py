"""Named places in the work where a test lets a process die or stand still.

Nothing happens unless `STRATA_FAULT_POINT` is set, and no deployment sets it: `name` kills the process when the place
is reached, `name:3` the third time, `name:1:STOP` stops it instead (another process must let it go on).
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from functools import cache

VARIABLE = "STRATA_FAULT_POINT"

_reached: Counter[str] = Counter()


def reach(name: str) -> None:
    """Die or stop here, if this is the place."""
    armed = _armed()
    if armed is None or armed[0] != name:
        return
    _reached[name] += 1
    if _reached[name] == armed[1]:
        os.kill(os.getpid(), armed[2])


@cache
def _armed() -> tuple[str, int, int] | None:
    name, *rest = os.environ.get(VARIABLE, "").split(":")
    if not name:
        return None
    times = int(rest[0]) if rest else 1
    return name, times, signal.Signals[f"SIG{rest[1]}"] if len(rest) > 1 else signal.SIGKILL
