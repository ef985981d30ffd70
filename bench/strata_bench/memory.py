"""What processes hold of the machine's memory."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

LOOKS_EVERY_S = 0.25
_PROC = Path("/proc")


def peak_rss_bytes() -> int:
    """The most that this process has held, or one of its children that have ended.

    The system's own figure for a process counts what its parent held when it was started, so ours comes from /proc.
    """
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    own = _kilobytes(_PROC / "self" / "status", "VmHWM:")
    peak = max(own or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, children)
    return peak if sys.platform == "darwin" else peak * 1024


@dataclass(slots=True)
class PeakMemory:
    bytes: int = 0


@contextmanager
def watched_memory(pid: int) -> Iterator[PeakMemory]:
    """The most that a process and its descendants hold together while the block runs, looked at four times a second.

    Pages that they share count once, as in a container's limit. 0 where the system does not tell.
    """
    peak, over = PeakMemory(), threading.Event()

    def watch() -> None:
        while True:
            peak.bytes = max(peak.bytes, together_bytes(pid))
            if over.wait(LOOKS_EVERY_S):
                return

    thread = threading.Thread(target=watch, name="memory", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def together_bytes(pid: int) -> int:
    """What the process and its descendants hold now, shared pages once."""
    return sum(_kilobytes(_PROC / str(each) / "smaps_rollup", "Pss:") for each in (pid, *_descendants(pid))) * 1024


def _descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _descendants(int(child))


def _kilobytes(path: Path, name: str) -> int:
    """0 where there is no such file any more, or none at all."""
    with suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0
