"""Where a command looks for the API, and as whom."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import Run
from tests.support.fake_api import (
    FakeApi,
)


def test_a_hint_leaves_out_an_address_that_the_next_call_finds_by_itself(
    run: Run, api: FakeApi, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_API_URL", api.url)

    assert run("index", str(folder), "--session", "shop").out == 'Indexed. Ask: strata ask "…" --session shop\n'


def test_the_environment_names_api_token_and_session(run: Run, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_API_URL", api.url + "/")
    monkeypatch.setenv("STRATA_TOKEN", "from-environment")
    monkeypatch.setenv("STRATA_SESSION", "shop")

    assert run("search", "retry").status == 0
    assert run("sessions", "--token", "from-option").status == 0
    assert [request.headers["authorization"] for request in api.requests] == [
        "Bearer from-environment",
        "Bearer from-option",
    ]


def test_the_local_cloud_is_found_by_its_note(
    run: Run, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata_client.cli.connecting.project_root", lambda: tmp_path)
    (tmp_path / ".strata").mkdir()
    note = tmp_path / ".strata" / "state.json"

    note.write_text(json.dumps({"pid": os.getpid(), "api_url": api.url}))
    assert run("sessions").status == 0

    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    note.write_text(json.dumps({"pid": dead.pid, "api_url": api.url}))
    monkeypatch.setattr("strata_client.cli.connecting.DEFAULT_API_URL", "http://127.0.0.1:9")
    assert "Nothing answers at http://127.0.0.1:9;" in run("sessions").err
    assert len(api.requests) == 1, "a note that a killed cloud left behind counts for nothing"
