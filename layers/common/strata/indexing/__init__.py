"""Files → documents → chunks → embedded chunks → rows."""

from __future__ import annotations

PIPELINE_VERSION = "6"
"""Raised by every change that alters what is made of a file: it names the cache's entries and a session's index."""


def pipeline_version(preamble_version: str = "") -> str:
    """The version with what chat models add to it: other preambles are another index.

    >>> pipeline_version("0a1b2c3d4e5f") == f"{PIPELINE_VERSION}+0a1b2c3d4e5f"
    True
    """
    return f"{PIPELINE_VERSION}+{preamble_version}" if preamble_version else PIPELINE_VERSION
