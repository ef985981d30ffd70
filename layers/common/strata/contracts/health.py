"""The reply of the health check."""

from __future__ import annotations

from typing import Literal

from strata.contracts.jobs import View


class HealthView(View):
    """`version` is the package's."""

    status: Literal["ok"] = "ok"
    version: str
