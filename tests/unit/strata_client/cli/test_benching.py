"""`strata bench`: what can't be measured is said before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Run


def unframed(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("sizes", ["0", "-1", "x", "1,2.5", "100,0", "²"])
def test_sizes_are_whole_numbers_above_0(run: Run, sizes: str) -> None:
    done = run("bench", "scale", "--sizes", sizes)
    assert (done.status, "no list of numbers" in unframed(done.err)) == (2, True)


@pytest.mark.parametrize("name", ["growth.png", "growth", "missing/growth.svg"])
def test_a_plot_is_an_svg_file_that_can_be_written(run: Run, tmp_path: Path, name: str) -> None:
    done = run("bench", "scale", "--sizes", "10", "--plot", str(tmp_path / name))
    assert (done.status, "no SVG file" in unframed(done.err)) == (2, True)
