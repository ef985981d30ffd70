"""An error is one sentence on stderr that says what to do; wrong usage ends with 2."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Outcome, Run
from tests.support.fake_api import (
    DROP,
    FakeApi,
    error_reply,
    json_reply,
    sse,
    sse_reply,
)

CALLS = [
    ["status"],
    ["sessions"],
    ["jobs"],
    ["jobs", "job-1"],
    ["jobs", "-s", "shop"],
    ["drift", "-s", "shop"],
    ["links", "place", "-s", "shop"],
    ["search", "x", "-s", "shop"],
    ["ask", "x", "-s", "shop"],
]


@pytest.mark.parametrize("arguments", CALLS, ids=" ".join)
@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["plain", "json"])
def test_without_a_cloud_one_sentence_says_what_to_do(
    run: Run, nowhere: str, arguments: list[str], extra: list[str]
) -> None:
    outcome = run(*arguments, *extra, "--api", nowhere)

    assert outcome == Outcome(1, "", f"Nothing answers at {nowhere}; start it with `strata up`.\n")


def test_the_usual_address_is_named_when_none_is_given(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata_client.cli.connecting.project_root", lambda: tmp_path)
    monkeypatch.setattr("strata_client.cli.connecting.DEFAULT_API_URL", "http://127.0.0.1:9")

    assert run("sessions").err == "Nothing answers at http://127.0.0.1:9; start it with `strata up`.\n"


def test_index_without_a_cloud_says_the_same(run: Run, nowhere: str, folder: Path) -> None:
    outcome = run("index", str(folder), "--session", "shop", "--api", nowhere)

    assert outcome.status == 1
    assert outcome.err.endswith(f"Nothing answers at {nowhere}; start it with `strata up`.\n")


def test_an_address_elsewhere_gets_other_advice(run: Run) -> None:
    outcome = run("sessions", "--api", "http://strata.invalid")

    assert outcome.status == 1
    assert "check the address and the network" in outcome.err
    assert "strata up" not in outcome.err


@pytest.mark.parametrize(
    ("reply", "advice"),
    [
        pytest.param(error_reply(401, "unauthenticated", "Sign in."), "Sign in. Give a token with --token", id="401"),
        pytest.param(error_reply(404, "session_not_found", "No."), "No. `strata sessions` lists yours.", id="404"),
        pytest.param(error_reply(422, "invalid_query", "Too\nlong."), "Too long.", id="422, in one line"),
        pytest.param(error_reply(503, "store_unavailable", "Later."), "Later.", id="503"),
        pytest.param(DROP, "Nothing answers", id="lost connection"),
    ],
)
def test_a_refusal_is_one_line_on_stderr(run: Run, api: FakeApi, reply: Any, advice: str) -> None:
    api.on("POST", "/api/rag/sessions/shop/query", reply)

    outcome = run("ask", "x", "--session", "shop", "--api", api.url)

    assert outcome.status == 1
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert advice in outcome.err


def test_an_answer_that_breaks_off_is_an_error_after_what_came(run: Run, api: FakeApi) -> None:
    failed = sse("delta", {"text": "So far"}) + sse("error", {"code": "generator_unavailable", "message": "Gone."})
    api.on("POST", "/api/rag/sessions/shop/query", sse_reply(failed))

    plain = run("ask", "x", "--session", "shop", "--api", api.url)
    as_json = run("ask", "x", "--session", "shop", "--api", api.url, "--json")

    assert (plain.status, plain.out, plain.err) == (1, "So far\n", "Gone.\n")
    assert (as_json.status, as_json.out) == (1, "")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["ask", "x"], id="a required option is missing"),
        pytest.param(["sessions", "--bad"], id="an unknown option"),
        pytest.param(["nothing"], id="an unknown command"),
        pytest.param(["search", "x", "-s", "shop", "--limit", "51"], id="a number out of range"),
    ],
)
def test_wrong_usage_exits_with_2(run: Run, arguments: list[str]) -> None:
    outcome = run(*arguments)

    assert (outcome.status, outcome.out) == (2, "")
    assert "--help" in outcome.err


@pytest.mark.parametrize(("debug", "shown"), [("0", False), ("1", True)])
def test_a_traceback_is_shown_only_on_request(
    run: Run, api: FakeApi, monkeypatch: pytest.MonkeyPatch, debug: str, shown: bool
) -> None:
    monkeypatch.setenv("STRATA_DEBUG", debug)
    api.on("GET", "/api/rag/sessions", json_reply({"unexpected": 1}))

    outcome = run("sessions", "--api", api.url)

    assert outcome.status == 1
    assert ("Traceback" in outcome.err) is shown
    assert "STRATA_DEBUG=1 shows where" in outcome.err


def test_a_path_that_is_no_folder_is_told(run: Run, api: FakeApi, tmp_path: Path) -> None:
    outcome = run("index", str(tmp_path / "nowhere"), "--session", "shop", "--api", api.url)

    assert outcome.status == 1
    assert "is not a folder" in outcome.err
    assert api.requests == []


def test_a_model_that_is_not_there_is_told(run: Run) -> None:
    assert "There is no model 'gpt' to pull" in run("model", "pull", "gpt").err


def test_migrate_asks_for_the_owners_address(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STRATA_OWNER_DATABASE_URL", raising=False)

    outcome = run("migrate")

    assert (outcome.status, outcome.out) == (1, "")
    assert "STRATA_OWNER_DATABASE_URL is not set" in outcome.err


def test_a_missing_package_is_told_with_the_way_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "strata_local.running", None)

    outcome = run("down")

    assert outcome.status == 1
    assert "`make run` installs them" in outcome.err
