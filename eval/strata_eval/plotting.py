"""The ladder as a picture: a group of bars a set, a bar a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strata.errors import ConfigurationError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
_BAR = 0.8
"""Of the room of a group."""
_LEGEND_INCHES = 1.5
"""Of the longest step's name with its colour."""


def checked_plot(path: Path) -> Path:
    """The path; raises `ConfigurationError` unless its ending is one of `FORMATS`, and its folder is there."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigurationError(f"A plot is a file that ends in {' or '.join(FORMATS)}, not {path.name!r}.")
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"There is no folder {path.absolute().parent} for the plot.")
    return path


def save_plot(reports: Sequence[Mapping[str, Any]], path: Path, *, metric: str = "ndcg@10") -> None:
    """Save `metric` by set and step, as PNG or SVG by the path's ending. The same reports give the same file."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "strata", "svg.fonttype": "none"}):
        drawn(reports, metric).savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else {})


def drawn(reports: Sequence[Mapping[str, Any]], metric: str) -> Figure:
    from matplotlib.figure import Figure

    steps = list(dict.fromkeys(step["name"] for report in reports for step in report["steps"]))
    figure = Figure(figsize=(2.5 + 1.1 * len(reports) * max(1.0, len(steps) / 5), 4.5), layout="constrained")
    axes = figure.subplots()
    width = _BAR / max(1, len(steps))
    for place, name in enumerate(steps):
        bars = [
            (number - _BAR / 2 + (place + 0.5) * width, float(step["metrics"].get(metric, 0.0)))
            for number, report in enumerate(reports)
            for step in report["steps"]
            if step["name"] == name
        ]
        axes.bar([left for left, _ in bars], [value for _, value in bars], width, label=name)
    axes.set_ylim(0, 1)
    axes.set_ylabel(metric)
    axes.set_xticks(range(len(reports)), [report["set"] for report in reports], rotation=20, ha="right")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    figure.legend(
        loc="outside upper center", ncols=max(1, min(len(steps), int(figure.get_figwidth() / _LEGEND_INCHES)))
    )
    return figure
