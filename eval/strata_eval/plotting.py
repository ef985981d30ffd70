"""The ladder as a picture: a group of bars a set, a bar a step. SVG by hand, so that nothing needs installing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

COLOURS = ("#9aa5b1", "#5b8def", "#36b37e", "#ff8b3d", "#7e57c2", "#c2185b")
_BAR, _GAP, _HEIGHT, _LEFT, _TOP = 22, 26, 260, 50, 40


def ladder_svg(reports: Sequence[Mapping[str, Any]], *, metric: str = "ndcg@10") -> str:
    """An SVG document of `metric` by set and step."""
    names = list(dict.fromkeys(step["name"] for report in reports for step in report["steps"]))
    group = _BAR * len(names) + _GAP
    width = _LEFT + group * len(reports) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT + 130}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-size="14">{escape(metric)}</text>',
    ]
    for tick in range(0, 11, 2):
        y = _TOP + _HEIGHT * (1 - tick / 10)
        parts.append(f'<line x1="{_LEFT}" x2="{width - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e0e0e0"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick / 10:.1f}</text>')
    for number, report in enumerate(reports):
        left = _LEFT + number * group + _GAP / 2
        for step in report["steps"]:
            value = float(step["metrics"].get(metric, 0.0))
            place = names.index(step["name"])
            x, height = left + place * _BAR, value * _HEIGHT
            title = escape(f"{report['set']}, {step['name']}: {value:.3f}")
            parts.append(
                f'<rect x="{x:.1f}" y="{_TOP + _HEIGHT - height:.1f}" width="{_BAR - 3}" height="{height:.1f}" '
                f'fill="{COLOURS[place % len(COLOURS)]}"><title>{title}</title></rect>'
            )
        place_of_name = f"translate({left + 6:.1f},{_TOP + _HEIGHT + 14}) rotate(20)"
        parts.append(f'<text transform="{place_of_name}">{escape(report["set"])}</text>')
    for place, name in enumerate(names):
        x = _LEFT + place * 110
        y = _HEIGHT + _TOP + 75
        parts.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{COLOURS[place % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 17}" y="{y + 10}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
