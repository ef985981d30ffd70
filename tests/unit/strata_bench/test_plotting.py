"""The picture of growth shows every size, also a single one."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from strata_bench.plotting import LINES, growth_svg


def size(rows: int, milliseconds: float) -> dict[str, Any]:
    times = {"p50_ms": milliseconds, "p95_ms": 2 * milliseconds}
    return {"rows": rows, **times, "first_lines": times, "recall@10": {"100 %": 1.0, "1 %": 0.993}}


@pytest.mark.parametrize("sizes", [[size(1_000, 1.0)], [size(1_000, 0.5), size(1_000_000, 900.0)]])
def test_every_line_has_a_point_for_every_size(sizes: list[dict[str, Any]]) -> None:
    svg = ElementTree.fromstring(growth_svg(sizes, of="rows"))
    circles = [mark for mark in svg.iter() if mark.tag.endswith("circle")]
    assert len(circles) == len(LINES) * len(sizes)
    places = [(float(mark.attrib["cx"]), float(mark.attrib["cy"])) for mark in circles]
    assert all(60 <= x <= 620 and 30 <= y <= 330 for x, y in places)
    texts = [text for mark in svg.iter() if (text := mark.text)]
    assert "1,000" in texts
    assert "recall ≥ 0.993" in texts
