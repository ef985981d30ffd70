"""The real embedding model for tests: pulled once, kept where `make model` keeps it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from strata.errors import EmbedderUnavailable
from strata.providers.onnx.embedder import OnnxEmbedder
from strata_local.models import FP32_DIRECTORY, pull_minilm

PROJECT = Path(__file__).resolve().parents[2]


@cache
def minilm_directory() -> Path:
    """The model directory, with its fp32 twin and the weights in `fp32/`. Skips when there is no network to pull it."""
    models = Path(os.environ.get("STRATA_MODEL_DIRECTORY", "").strip() or PROJECT / ".strata" / "models")
    try:
        return pull_minilm(models / "minilm", say=print, keep_fp32=True)
    except EmbedderUnavailable as error:
        pytest.skip(error.message)


@cache
def minilm(*, fp32: bool = False, threads: int = 0) -> OnnxEmbedder:
    directory = minilm_directory()
    return OnnxEmbedder.load(directory / FP32_DIRECTORY if fp32 else directory, threads=threads)
