"""How old a file is when somebody asks: it depends on the day, so it is never stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

HALF_LIFE = timedelta(days=365)


def staleness_score(last_modified: datetime, now: datetime) -> float:
    """0 for a file changed now (or later, by a clock that is ahead), one half after a year, towards 1 from there.

    >>> from datetime import UTC
    >>> changed = datetime(2025, 1, 1, tzinfo=UTC)
    >>> [staleness_score(changed, changed + years * HALF_LIFE) for years in (-1, 0, 1, 2)]
    [0.0, 0.0, 0.5, 0.75]
    """
    half_lives = max(now - last_modified, timedelta()) / HALF_LIFE
    return round(1 - float(0.5**half_lives), 4)


def with_staleness(metadata: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The metadata of a chunk with `staleness_score`, where it is known when the file was changed last."""
    shown = dict(metadata)
    if last_modified := metadata.get("last_modified"):
        shown["staleness_score"] = staleness_score(datetime.fromisoformat(last_modified), now)
    return shown
