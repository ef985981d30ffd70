"""Growth as a picture: times against the number of chunks, on logarithmic scales. SVG by hand, as the ladder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

LINES = (
    ("whole questions, p95", "#d84315", "p95_ms"),
    ("whole questions, p50", "#ff8b3d", "p50_ms"),
    ("first lines, p95", "#1565c0", "first_lines.p95_ms"),
    ("first lines, p50", "#5b8def", "first_lines.p50_ms"),
)
"""Name, colour, and where the milliseconds stand in the report of a size."""
_NAMES = {"rows": "chunks in the session", "sessions": "sessions of 1,000 chunks beside each other"}
_WIDTH, _HEIGHT, _LEFT, _TOP = 560, 300, 60, 30


def growth_svg(sizes: Sequence[Mapping[str, Any]], *, of: str) -> str:
    """An SVG document of the measured sizes, by `rows` or by `sessions`; the least recall stands under each number."""
    across = _scale([size[of] for size in sizes])
    up = _scale([_time(size, place) for _, _, place in LINES for size in sizes])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 30}" height="{_TOP + _HEIGHT + 130}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-size="14">milliseconds of a search, by {_NAMES[of]}</text>',
    ]
    for power in range(up[0], up[1] + 1):
        y = _y(10**power, up)
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e0e0e0"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10**power:,}</text>')
    for size in sizes:
        x = _x(size[of], across)
        recall = min(size["recall@10"].values(), default=1.0)
        parts.append(f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{size[of]:,}</text>')
        parts.append(f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 34}" text-anchor="middle">recall ≥ {recall:.3f}</text>')
    for number, (name, colour, place) in enumerate(LINES):
        times = [(size[of], _time(size, place)) for size in sizes]
        points = [(_x(rows, across), _y(milliseconds, up), milliseconds) for rows, milliseconds in times]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y, milliseconds in points:
            title = escape(f"{name}: {milliseconds} ms")
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{title}</title></circle>')
        x, y = _LEFT + number % 2 * 200, _TOP + _HEIGHT + 56 + number // 2 * 20
        parts.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 17}" y="{y + 10}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _time(size: Mapping[str, Any], place: str) -> float:
    *folders, name = place.split(".")
    for folder in folders:
        size = size[folder]
    return float(size[name])


def _scale(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around the values, at least one apart."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _x(rows: float, scale: tuple[int, int]) -> float:
    return _LEFT + 30 + (_WIDTH - 60) * (math.log10(rows) - scale[0]) / (scale[1] - scale[0])


def _y(milliseconds: float, scale: tuple[int, int]) -> float:
    return _TOP + _HEIGHT * (1 - (math.log10(milliseconds) - scale[0]) / (scale[1] - scale[0]))
