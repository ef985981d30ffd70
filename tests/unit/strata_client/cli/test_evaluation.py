"""`strata eval synth`: the files of a folder or those of a session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Run
from tests.support.fake_api import (
    FakeApi,
)


def test_a_judged_set_is_made_of_a_session_that_the_caller_reads(
    run: Run, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STRATA_CHAT", raising=False)
    out = tmp_path / "set"
    made = run("eval", "synth", "--session", "shop", "--out", str(out), "--api", api.url, "--token", "t", "--json")
    assert json.loads(made.out) == {
        "set": str(out), "files": 3, "questions": 2, "sources": {"heading": 1, "docstring": 1}
    }  # fmt: skip
    asked = [json.loads(line)["text"] for line in (out / "queries.jsonl").read_text().splitlines()]
    assert asked == ["How a lease is renewed", "Give the lock back to whoever waits for it"]
    assert [request.headers["authorization"] for request in api.asked("GET", "/api/rag/sessions/shop/files")] == [
        "Bearer t"
    ] * 3


@pytest.mark.parametrize("words", [[], [".", "--session", "shop"]], ids=["neither", "both"])
def test_a_judged_set_is_of_a_folder_or_of_a_session(run: Run, tmp_path: Path, words: list[str]) -> None:
    outcome = run("eval", "synth", *words, "--out", str(tmp_path / "set"))
    assert (outcome.status, "folder or a --session" in outcome.err) == (1, True)
