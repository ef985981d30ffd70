"""A clock that a test moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """A clock that a test moves. It also stands in for `time.sleep` and `time.monotonic`."""

    def __init__(self, now: datetime = datetime(2026, 11, 30, 12, tzinfo=UTC)) -> None:
        self.present = now

    def now(self) -> datetime:
        return self.present

    def sleep(self, seconds: float) -> None:
        self.present += timedelta(seconds=seconds)

    def monotonic(self) -> float:
        return self.present.timestamp()
