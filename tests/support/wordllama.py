"""The real static embedder for tests: pulled once, kept where `strata model pull` keeps it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from strata.errors import EmbedderUnavailable
from strata.providers.static.embedder import StaticEmbedder
from strata_local.models import pull_wordllama

PROJECT = Path(__file__).resolve().parents[2]


@cache
def wordllama() -> StaticEmbedder:
    """Skips when there is no network to pull it."""
    models = Path(os.environ.get("STRATA_MODEL_DIRECTORY", "").strip() or PROJECT / ".strata" / "models")
    try:
        return StaticEmbedder.load(pull_wordllama(models / "wordllama", say=print))
    except EmbedderUnavailable as error:
        pytest.skip(error.message)
