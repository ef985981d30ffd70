"""A function whose module can't be imported by its runtime."""

from __future__ import annotations

import os

if "AWS_LAMBDA_RUNTIME_API" in os.environ:
    raise ImportError("a package is missing")
