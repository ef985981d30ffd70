"""A stop that takes long says what it waits for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from strata_local.up import LocalCloud


def test_what_a_slow_stop_waits_for_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata_local.up.STOP_NEWS_S", 0.05)
    cloud = LocalCloud(tmp_path)
    cloud.logs.mkdir()

    def slow_part() -> None:
        limit = time.monotonic() + 10
        while not (cloud.logs / "stop.log").exists() and time.monotonic() < limit:
            time.sleep(0.01)
        time.sleep(0.2)

    cloud._running.callback(slow_part)
    cloud.stop()
    assert "slow_part" in (cloud.logs / "stop.log").read_text(encoding="utf-8")


def test_a_quick_stop_says_nothing(tmp_path: Path) -> None:
    cloud = LocalCloud(tmp_path)
    cloud.stop()
    assert list(tmp_path.iterdir()) == []
