"""The template's schedules: each function's event, every period, as long as the cloud runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from strata_local.stack import Function

Invoke = Callable[[str, object], None]
"""Takes a function's name and an event, and returns at once."""


class Schedules:
    """The first event comes one period after the start, as on AWS."""

    def __init__(self, functions: Mapping[str, Function], *, invoke: Invoke) -> None:
        self._invoke = invoke
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(name, every_s), name=f"schedule-{name}", daemon=True)
            for name, function in functions.items()
            for every_s in function.every_s
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, name: str, every_s: float) -> None:
        while not self._stopping.wait(every_s):
            self._invoke(name, {"source": "aws.scheduler", "time": datetime.now(UTC).isoformat(timespec="seconds")})
