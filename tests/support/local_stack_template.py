"""The template of the small real functions that stand in `local_stack`."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = Path(__file__).parent / "local_stack" / "template.yaml"
