"""The only place where adapters meet use cases: one cached factory a use case.

Nothing is built, read or connected at import; a function's first call pays for what it uses, later calls find it.
"""

from __future__ import annotations

from functools import cache

from strata.settings.load import load_settings
from strata.settings.model import Settings


@cache
def settings() -> Settings:
    """The settings of this process; raises `ConfigurationError` that names every fault."""
    return load_settings()
