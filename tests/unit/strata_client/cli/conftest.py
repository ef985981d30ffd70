"""Commands run in this process, against an API on loopback that behaves as Strata does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata_client.cli.main import main
from tests.support.command_line import Outcome, Run
from tests.support.fake_api import (
    FakeApi,
    behave_well,
    fake_api,
)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("STRATA_API_URL", "STRATA_TOKEN", "STRATA_SESSION", "STRATA_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Outcome:
        status = main(arguments)
        out, err = capsys.readouterr()
        return Outcome(status, out, err)

    return run


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    with fake_api() as api:
        behave_well(api)
        yield api


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / "src" / "retry.py").write_text("DELAY_S = 2\n")
    (root / "README.md").write_text("# Shop\n")
    (root / ".gitignore").write_text("*.log\n")
    (root / "a.log").write_text("x")
    return root


@pytest.fixture
def nowhere() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"
