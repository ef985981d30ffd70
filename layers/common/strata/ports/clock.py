"""Time: what it is now, and what a long step tells whoever watches it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The present time, in UTC, with its zone."""
        ...


class Advanced(Protocol):
    def __call__(self) -> None:
        """Called every few seconds inside a long step; it may raise to end it."""
        ...


def unwatched() -> None:
    """Nobody watches."""
