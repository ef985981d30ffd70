"""Files → documents → chunks → embedded chunks → rows."""

from __future__ import annotations

PIPELINE_VERSION = "3"
"""Raised by every change that alters what is made of a file: it names the cache's entries and a session's index."""
