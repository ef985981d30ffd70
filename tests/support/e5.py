"""The real multilingual model for tests: pulled once, kept where `strata model pull` keeps it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from strata.errors import EmbedderUnavailable
from strata.providers.onnx.embedder import OnnxEmbedder
from strata_local.models import pull_e5

PROJECT = Path(__file__).resolve().parents[2]


@cache
def e5_directory() -> Path:
    """Skips when there is no network to pull it."""
    models = Path(os.environ.get("STRATA_MODEL_DIRECTORY", "").strip() or PROJECT / ".strata" / "models")
    try:
        return pull_e5(models / "e5", say=print)
    except EmbedderUnavailable as error:
        pytest.skip(error.message)


@cache
def e5() -> OnnxEmbedder:
    return OnnxEmbedder.load(e5_directory())
