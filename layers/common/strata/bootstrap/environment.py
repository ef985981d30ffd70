"""The settings of this process, and its clock."""

from __future__ import annotations

from functools import cache

from strata.ports.clock import Clock
from strata.settings.load import load_settings
from strata.settings.model import Settings


@cache
def settings() -> Settings:
    """The settings of this process; raises `ConfigurationError` that names every fault."""
    return load_settings()


@cache
def clock() -> Clock:
    from strata.storage.clock import SystemClock

    return SystemClock()
