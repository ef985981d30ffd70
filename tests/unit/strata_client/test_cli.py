"""Every command against an API on loopback that behaves as Strata does; the same with nothing behind the address."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strata_client.cli.help_texts import walk
from strata_client.cli.main import command, main
from strata_client.cli.screen import printable
from tests.support.fake_api import (
    ANSWER_TEXT,
    CITATIONS,
    DROP,
    FakeApi,
    behave_well,
    error_reply,
    fake_api,
    job_view,
    json_reply,
    row,
    sse,
    sse_reply,
)


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


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


# --- what each command says -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["status"], lambda value: value["status"] == "ok", id="status"),
        pytest.param(["sessions"], lambda value: [each["session_id"] for each in value] == ["shop"], id="sessions"),
        pytest.param(["jobs"], lambda value: len(value) == 1, id="jobs of all sessions"),
        pytest.param(["jobs", "-s", "shop"], lambda value: value[0]["chunks"] == 7, id="jobs of one session"),
        pytest.param(["jobs", "job-1"], lambda value: value["status"] == "done", id="one job"),
        pytest.param(["jobs", "--failed"], lambda value: value["dead_letters"][0]["id"] == "letter-1", id="failures"),
        pytest.param(["jobs", "cancel", "job-1"], lambda value: value["status"] == "cancelled", id="cancel"),
        pytest.param(["jobs", "retry", "job-1"], lambda value: value["status"] == "queued", id="retry"),
        pytest.param(["sessions", "delete", "shop", "--yes"], lambda value: value["deleted"], id="delete a session"),
        pytest.param(["drift", "-s", "shop"], lambda value: value["drift"][0]["name"] == "shop.Gone", id="drift"),
        pytest.param(["search", "retry", "-s", "shop"], lambda value: len(value["rows"]) == 1, id="search"),
        pytest.param(
            ["ask", "why?", "-s", "shop"],
            lambda value: value["answer"]["text"] == ANSWER_TEXT and value["answer"]["citations"] == CITATIONS,
            id="ask",
        ),
    ],
)
def test_json_is_the_only_thing_on_stdout(
    run: Run, api: FakeApi, arguments: Sequence[str], expected: Callable[[Any], bool]
) -> None:
    outcome = run(*arguments, "--json", "--api", api.url)

    assert outcome.status == 0, outcome.err
    assert expected(outcome.json)


def test_a_session_is_not_deleted_by_a_slip(run: Run, api: FakeApi) -> None:
    outcome = run("sessions", "delete", "shop", "--api", api.url)
    assert (outcome.status, api.requests) == (2, [])
    assert "--yes" in outcome.err


def test_a_job_that_ended_otherwise_is_no_success_of_cancel(run: Run, api: FakeApi) -> None:
    api.on("POST", "/api/rag/jobs/job-1/cancel", json_reply({"job": job_view("running")}, 202))
    outcome = run("jobs", "cancel", "job-1", "--api", api.url)
    assert outcome.status == 1
    assert "ended as `done`" in outcome.err


def test_failures_are_told_with_their_reasons(run: Run, api: FakeApi) -> None:
    outcome = run("jobs", "--failed", "--api", api.url)
    assert outcome.status == 0
    assert "There is no such session." in " ".join(outcome.out.split())


@pytest.mark.parametrize("name", ["bad/name", "", "../x", "a b", "-x", "x" * 101, "проект", "x\n"])
def test_index_packs_nothing_for_a_name_that_is_none(run: Run, api: FakeApi, folder: Path, name: str) -> None:
    outcome = run("index", str(folder), f"--session={name}", "--api", api.url)
    assert outcome.status == 1
    assert "letters, digits, dots, dashes and underscores" in outcome.err
    assert "Packed" not in outcome.err + outcome.out
    assert api.requests == []


def test_index_packs_nothing_for_a_server_that_is_not_there(run: Run, folder: Path) -> None:
    outcome = run("index", str(folder), "--session", "shop", "--api", "http://127.0.0.1:9")
    assert (outcome.status, "strata up" in outcome.err) == (1, True)
    assert "Packed" not in outcome.err + outcome.out


def test_index_sends_the_folder_and_says_what_became_of_it(run: Run, api: FakeApi, folder: Path) -> None:
    outcome = run("index", str(folder), "--session", "shop", "--json", "--api", api.url)

    assert outcome.status == 0, outcome.err
    assert outcome.json["job"]["counters"]["indexed_files"] == 2
    assert outcome.json["packed"]["files"] == 3
    assert outcome.json["skipped_here"] == [{"path": "a.log", "reason": "ignored by .gitignore"}]
    assert [(request.method, request.path) for request in api.requests] == [
        ("GET", "/api/rag/sessions/shop"),
        ("POST", "/api/rag/sessions"),
        ("POST", "/store"),
        ("GET", "/api/rag/jobs/job-1/events"),
        ("GET", "/api/rag/jobs/job-1/events"),
    ]


def test_a_new_index_is_asked_for_in_the_request(run: Run, api: FakeApi, folder: Path) -> None:
    outcome = run("index", str(folder), "--session", "shop", "--reindex", "--json", "--api", api.url)

    assert outcome.status == 0, outcome.err
    (request,) = api.asked("POST", "/api/rag/sessions")
    assert request.json()["reindex"] is True


def test_rollback_waits_for_its_job(run: Run, api: FakeApi) -> None:
    api.on("POST", "/api/rag/sessions/shop/rollback", json_reply({"job": job_view("queued")}, 202))

    outcome = run("rollback", "--session", "shop", "--api", api.url)

    assert outcome.status == 0, outcome.err
    assert outcome.out == "Rolled back: 7 chunks, generation 3.\n"


def test_a_rollback_without_an_index_before_says_so(run: Run, api: FakeApi) -> None:
    error = {"code": "no_earlier_index", "message": "There is no index before the present one."}
    api.on("POST", "/api/rag/sessions/shop/rollback", json_reply({"job": job_view("queued")}, 202))
    api.on("GET", "/api/rag/jobs/job-1/events", sse_reply(sse("terminal", job_view("error", error=error), 1)))

    outcome = run("rollback", "--session", "shop", "--api", api.url)

    assert outcome.status == 1
    assert "There is no index before the present one." in outcome.err


def test_index_tells_a_person_what_was_left_out_and_why(run: Run, api: FakeApi, folder: Path) -> None:
    outcome = run("index", str(folder), "--session", "shop", "--api", api.url)

    assert outcome.status == 0
    assert "a.log: ignored by .gitignore" in outcome.err
    assert "logo.png: binary" in outcome.err
    assert "2 indexed (1 embedded, 1 known), 0 removed, 1 skipped, 0 failed; 7 chunks in the index." in outcome.err
    assert outcome.out == f'Indexed. Ask: strata ask --api {api.url} "…" --session shop\n'


def test_a_hint_leaves_out_an_address_that_the_next_call_finds_by_itself(
    run: Run, api: FakeApi, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_API_URL", api.url)

    assert run("index", str(folder), "--session", "shop").out == 'Indexed. Ask: strata ask "…" --session shop\n'


NOTES = [
    {"path": "a.py", "line": 7, "reason": "Python can't parse it: source chunks only, no symbols."},
    {"path": "b.md", "line": None, "reason": "It is too large to be parsed."},
]


def test_index_and_jobs_show_what_parsers_say_with_its_place(run: Run, api: FakeApi, folder: Path) -> None:
    noted = job_view(notes=NOTES, note_count=12)
    api.on("GET", "/api/rag/jobs/job-1/events", sse_reply(sse("terminal", noted, 1)))
    api.on("GET", "/api/rag/jobs/job-1", json_reply(noted))
    indexed = run("index", str(folder), "--session", "shop", "--api", api.url).err
    shown = run("jobs", "job-1", "--api", api.url).out
    for note in ("a.py:7: Python can't parse it", "b.md: It is too large", "10 more"):
        assert note in indexed
        assert note in shown
    assert json.loads(run("jobs", "job-1", "--json", "--api", api.url).out)["notes"] == NOTES


def test_a_name_with_a_line_end_takes_one_line(run: Run, api: FakeApi, folder: Path) -> None:
    wild = [{"path": "a\nb.md", "reason": "empty"}]
    noted = [{"path": "c\rd.py", "line": 7, "reason": "no symbols"}]
    odd = job_view(failed=wild, skipped=wild, notes=noted, note_count=1)
    api.on("GET", "/api/rag/jobs/job-1/events", sse_reply(sse("terminal", odd, 1)))
    api.on("GET", "/api/rag/jobs/job-1", json_reply(odd))
    for said in (
        run("index", str(folder), "-s", "shop", "--api", api.url).err,
        run("jobs", "job-1", "--api", api.url).out,
    ):
        assert "a b.md: empty" in said
        assert "d.py:7: no symbols" in said
        assert "a\n" not in said


def test_an_unknown_job_is_told_where_to_look(run: Run, api: FakeApi) -> None:
    api.on("GET", "/api/rag/jobs/job-9", error_reply(404, "job_not_found", "There is no such job."))
    assert "`strata jobs` lists yours" in run("jobs", "job-9", "--api", api.url).err


def test_many_reasons_are_summed_up(run: Run, api: FakeApi, folder: Path) -> None:
    failed = [{"path": f"f{n}.py", "reason": "not UTF-8"} for n in range(5)]
    counters = {**job_view()["counters"], "failed_files": 9}
    job = job_view(failed=failed, counters=counters)
    api.on("GET", "/api/rag/jobs/job-1/events", sse_reply(sse("terminal", job, 1)))

    outcome = run("index", str(folder), "--session", "shop", "--api", api.url)

    assert "Failed: f0.py, f1.py, f2.py and 2 more: not UTF-8" in outcome.err
    assert "Failed: 4 more" in outcome.err


def test_a_job_that_fails_is_a_failed_command(run: Run, api: FakeApi, folder: Path) -> None:
    error = {"code": "unsafe_entry", "message": "The upload holds a link."}
    api.on("GET", "/api/rag/jobs/job-1/events", sse_reply(sse("terminal", job_view("error", error=error), 1)))

    plain = run("index", str(folder), "--session", "shop", "--api", api.url)
    as_json = run("index", str(folder), "--session", "shop", "--api", api.url, "--json")

    assert plain.status == as_json.status == 1
    assert plain.err.endswith("The job job-1 ended as `error`: The upload holds a link.\n")
    assert as_json.json["job"]["error"]["code"] == "unsafe_entry"


def test_ask_shows_the_answer_and_its_sources_under_it(run: Run, api: FakeApi) -> None:
    outcome = run("ask", "why?", "--session", "shop", "--path", "src/", "--layers", "C0, C1", "--api", api.url)

    assert outcome.out == f"{ANSWER_TEXT}\n\nSources\n  [1] src/retry.py:4\n  [2] docs/retry.md:2-3\n"
    assert api.requests[0].json() == {"question": "why?", "layers": ["C0", "C1"], "path_prefixes": ["src/"]}


def test_sources_stand_in_the_order_of_their_lines_and_one_that_fails_a_claim_says_so(run: Run, api: FakeApi) -> None:
    late, early = {**CITATIONS[0], "lines": [9, 9]}, CITATIONS[0]
    done = {"answer": "It does [1].", "grounded": False, "abstained": False, "usage": {}, "timings_ms": {}}
    cited = b"".join(sse("citation", each) for each in (late, early, {**late, "supported": False}))
    api.on("POST", "/api/rag/sessions/shop/query", sse_reply(cited + sse("done", done)))

    outcome = run("ask", "why?", "--session", "shop", "--api", api.url)

    assert "  [1] src/retry.py:4\n  [1] src/retry.py:9  (not supported by these lines)\n" in outcome.out


def test_an_answer_that_is_not_supported_says_so(run: Run, api: FakeApi) -> None:
    done = {"answer": "It does [1].", "grounded": False, "abstained": False, "usage": {}, "timings_ms": {}}
    citation = {**CITATIONS[0], "supported": False}
    events = sse("delta", {"text": "It does [1]."}) + sse("citation", citation) + sse("done", done)
    api.on("POST", "/api/rag/sessions/shop/query", sse_reply(events))

    outcome = run("ask", "why?", "--session", "shop", "--api", api.url)

    assert "[1] src/retry.py:4  (not supported by these lines)" in outcome.out
    assert "Not every claim is supported" in outcome.out


def test_an_answer_without_deltas_is_still_shown(run: Run, api: FakeApi) -> None:
    done = {"answer": "Not found.", "grounded": False, "abstained": True, "usage": {}, "timings_ms": {}}
    api.on("POST", "/api/rag/sessions/shop/query", sse_reply(sse("sources", []) + sse("done", done)))

    assert run("ask", "why?", "--session", "shop", "--api", api.url).out == "Not found.\n"


def test_an_answer_that_turns_out_to_have_no_support_is_withdrawn(run: Run, api: FakeApi) -> None:
    done = {"answer": "Not found.", "grounded": False, "abstained": True, "usage": {}, "timings_ms": {}}
    streamed = sse("delta", {"text": "It flies."}) + sse("citation", {**CITATIONS[0], "supported": False})
    api.on("POST", "/api/rag/sessions/shop/query", sse_reply(streamed + sse("done", done)))

    outcome = run("ask", "why?", "--session", "shop", "--api", api.url)

    assert run("ask", "why?", "--session", "shop", "--api", api.url, "--json").json["answer"]["citations"] == []
    assert outcome.out == "It flies.\nThe sources do not support that; it is withdrawn.\nNot found.\n"


def test_search_gives_one_line_a_row_where_no_terminal_is(run: Run, api: FakeApi) -> None:
    outcome = run("search", "retry", "--session", "shop", "--limit", "5", "--api", api.url)

    assert outcome.out == "1\t0.0325\tsrc/retry.py:1-9\tC0\tretry\n"
    assert api.requests[0].json() == {"query": "retry", "limit": 5}


def test_text_from_files_can_not_steer_the_terminal(run: Run, api: FakeApi) -> None:
    nasty = "\x1b]0;owned\x07\x1b[2J\u202ebad\r"
    retrieved = {"rows": [row("a.py", title=nasty)], "session_id": "shop", "generation": 1, "embedding_model": "m"}
    api.on("POST", "/api/rag/sessions/shop/retrieve", json_reply(retrieved))
    done = {"answer": nasty, "grounded": True, "abstained": False, "usage": {}, "timings_ms": {}}
    api.on("POST", "/api/rag/sessions/shop/query", sse_reply(sse("delta", {"text": nasty}) + sse("done", done)))
    api.on("GET", "/api/rag/sessions/shop", error_reply(404, "x", nasty))

    outcomes = [run("search", "x", "-s", "shop", "--api", api.url), run("ask", "x", "-s", "shop", "--api", api.url)]

    for outcome in outcomes:
        assert outcome.status == 0
        assert not set("\x1b\x07\r\u202e") & set(outcome.out + outcome.err)


def test_rich_markup_in_a_title_is_text(run: Run, api: FakeApi) -> None:
    retrieved = {
        "rows": [row(title="[red]list[int][/red]")],
        "session_id": "s",
        "generation": 1,
        "embedding_model": "m",
    }
    api.on("POST", "/api/rag/sessions/shop/retrieve", json_reply(retrieved))

    assert "[red]list[int][/red]" in run("search", "x", "-s", "shop", "--api", api.url).out


def test_what_an_output_can_not_show_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ascii:
        encoding = "ascii"

    monkeypatch.setattr(sys, "stdout", Ascii())

    assert printable("Привет \ud800 [1]") == "?????? ? [1]"


# --- where a command looks for the API, and as whom -----------------------------------------------------------------


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


def test_drift_is_a_table_and_none_is_said(run: Run, api: FakeApi) -> None:
    outcome = run("drift", "-s", "shop", "--api", api.url)
    assert outcome.status == 0
    assert all(text in outcome.out for text in ("docs/a.md:3", "symbol", "shop.Gone"))
    nothing = {"session_id": "shop", "drift": [], "truncated": False}
    api.on("GET", "/api/rag/sessions/shop/drift", json_reply(nothing))
    assert (
        "No document names something of this project that is not there."
        in run("drift", "-s", "shop", "--api", api.url).err
    )


# --- errors ---------------------------------------------------------------------------------------------------------

COMMANDS = [
    ["status"],
    ["sessions"],
    ["jobs"],
    ["jobs", "job-1"],
    ["jobs", "-s", "shop"],
    ["drift", "-s", "shop"],
    ["search", "x", "-s", "shop"],
    ["ask", "x", "-s", "shop"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
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
    monkeypatch.setitem(sys.modules, "strata_local.up", None)

    outcome = run("down")

    assert outcome.status == 1
    assert "`make run` installs them" in outcome.err


# --- the local cloud's commands -------------------------------------------------------------------------------------


def test_a_development_token_is_one_that_the_local_cloud_takes(run: Run, tmp_path: Path) -> None:
    from strata_local.tokens import claims_of, load_secret

    arguments = ["token", "--user", "ann", "--group", "writers", "--group", "admins", "--data", str(tmp_path)]
    plain, as_json = run(*arguments), run(*arguments, "--json")

    for signed in (plain.out.strip(), as_json.json["token"]):
        assert claims_of(f"Bearer {signed}", load_secret(tmp_path)) == {
            "sub": "ann",
            "tenant": "local",
            "groups": "writers,admins",
            "scopes": "internal",
        }


def test_down_without_a_cloud_is_no_error(run: Run, tmp_path: Path) -> None:
    assert run("down", "--data", str(tmp_path)).out == "Nothing was running.\n"
    assert run("down", "--data", str(tmp_path), "--json").json["stopped"] is False


def test_down_wipes_only_its_own_data(run: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis.md").write_text("years of work")

    outcome = run("down", "--wipe", "--data", str(tmp_path))

    assert outcome.status == 1
    assert (tmp_path / "thesis.md").exists()


# --- demo, with an API that runs already ----------------------------------------------------------------------------


def test_demo_prints_exactly_one_object(run: Run, api: FakeApi, folder: Path) -> None:
    outcome = run("demo", str(folder), "--session", "shop", "--json", "--api", api.url)

    assert outcome.status == 0, outcome.err
    assert set(outcome.json) == {"job", "answer", "timings", "chunks"}
    assert outcome.json["job"]["id"] == "job-1"
    assert set(outcome.json["job"]) == {"id", "status", "counters", "seconds"}
    assert outcome.json["answer"] == {
        "text": ANSWER_TEXT,
        "citations": [{name: each[name] for name in ("n", "path", "lines", "quote")} for each in CITATIONS],
        "grounded": True,
    }
    assert set(outcome.json["timings"]) == {"sources_ms", "first_delta_ms", "total_ms"}
    assert 0 < outcome.json["timings"]["sources_ms"] <= outcome.json["timings"]["total_ms"]
    assert outcome.json["chunks"] == 7


def test_demo_shows_a_person_the_answer_and_what_to_try_next(run: Run, api: FakeApi, folder: Path) -> None:
    outcome = run("demo", str(folder), "--session", "shop", "--question", "Why?", "--api", api.url)

    assert outcome.status == 0
    assert ANSWER_TEXT in outcome.out
    assert "Question: Why?" in outcome.err
    assert outcome.out.count(f"--api {api.url}") == 3
    assert api.asked("POST", "/api/rag/sessions/shop/query")[0].json() == {"question": "Why?"}


def test_demo_with_a_failed_job_asks_nothing(run: Run, api: FakeApi, folder: Path) -> None:
    api.on("GET", "/api/rag/jobs/job-1/events", sse_reply(sse("terminal", job_view("error"), 1)))

    outcome = run("demo", str(folder), "--session", "shop", "--json", "--api", api.url)

    assert (outcome.status, outcome.out) == (1, "")
    assert api.asked("POST", "/api/rag/sessions/shop/query") == []


# --- help, interrupts -----------------------------------------------------------------------------------------------


COMMANDS = [names for names, each in walk(command()) if not hasattr(each, "commands")]
GROUPS = [names for names, each in walk(command()) if names and hasattr(each, "commands")]


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_teaches_with_an_example(run: Run, names: tuple[str, ...]) -> None:
    outcome = run(*names, "--help")

    assert outcome.status == 0
    assert "Example: " in outcome.out
    assert "--json" in outcome.out
    assert "<bool>" not in outcome.out, "a switch takes no value"


@pytest.mark.parametrize("names", [(), *GROUPS], ids=lambda names: " ".join(("strata", *names)))
def test_the_help_of_a_group_teaches_with_an_example(run: Run, names: tuple[str, ...]) -> None:
    assert "Example: strata " in run(*names, "--help").out


@pytest.mark.parametrize("names", [*COMMANDS, *GROUPS], ids=" ".join)
def test_a_help_text_breaks_its_lines_where_the_terminal_ends(names: tuple[str, ...]) -> None:
    (found,) = [each for path, each in walk(command()) if path == names]
    assert "\n" not in found.help.replace("\n\n", "")


def test_a_group_that_lists_says_how_to_see_what_its_list_can(run: Run) -> None:
    assert "--failed" in run("jobs", "--help").out


@pytest.mark.skipif(os.name == "nt", reason="Windows has other interrupts")
def test_ctrl_c_stops_a_command_at_once_with_130(api: FakeApi) -> None:
    pause = sse_reply(*[sse("delta", {"text": "word "})] * 100, pause_s=0.1)
    api.on("POST", "/api/rag/sessions/shop/query", pause)
    program = "from strata_client.cli.main import run; run()"
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", program, "ask", "x", "--session", "shop", "--api", api.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(5) == b"word "
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert time.monotonic() - started < 3
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.skipif(shutil.which("head") is None, reason="needs head")
def test_a_reader_that_leaves_early_gets_no_traceback(api: FakeApi) -> None:
    rows = [row(f"src/f{n}.py", title="x" * 200) for n in range(2_000)]
    retrieved = {"rows": rows, "session_id": "shop", "generation": 1, "embedding_model": "m"}
    api.on("POST", "/api/rag/sessions/shop/retrieve", json_reply(retrieved))
    program = "from strata_client.cli.main import run; run()"
    search = [sys.executable, "-c", program, "search", "x", "--session", "shop", "--api", api.url]
    with subprocess.Popen(search, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        first = subprocess.run(["head", "-n", "1"], stdin=process.stdout, capture_output=True, check=True).stdout
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert first.startswith(b"1\t")


def test_search_explains_every_row_of_the_result(run: Run, api: FakeApi) -> None:
    explain = {
        "parts": [
            {"name": "dense", "sentence": "Near.", "rank": 1, "value": 0.4, "weight": 1.0, "part": 0.01639},
            {"name": "lexical", "rank": 2, "value": 3.5, "weight": 1.0, "part": 0.01613},
        ],
        "terms": [{"term": "retry", "part": 2.0}, {"term": "delay", "part": 1.5}],
        "allowed_by": "user:ann reads the session; the file has no list of its own",
    }
    also = [{"layer": "C1_SYMBOL_CATALOG", "path": "src/retry.py", "lines": [1, 9]}]
    hidden = {**explain, "terms": None}
    fields = [
        {"name": "bm25", "sentence": "Words.", "rank": None, "value": 1.0, "weight": -0.5, "part": -0.5},
        {"name": "cosine", "sentence": "Near.", "rank": None, "value": 0.6, "weight": 2.0, "part": 1.2},
    ]
    reranked = {**explain, "parts": fields}
    unranked = {"dense_rank": None, "distance": None, "lexical_rank": None, "bm25": 0.0}
    rows = [
        row(explain=explain, also=also),
        row("b.md", explain=hidden, prefer_bonus=1, test_penalty=1),
        row(explain=reranked, exact_rank=4),
        row(explain={**explain, "parts": [], "terms": []}, score=0.0, **unranked),
    ]
    found = {"session_id": "shop", "generation": 3, "embedding_model": "minilm", "rows": rows}
    api.on("POST", "/api/rag/sessions/shop/retrieve", json_reply(found))
    shown = run("search", "retry delay", "--session", "shop", "--explain", "--api", api.url)
    assert shown.status == 0
    assert api.requests[-1].json()["explain"] is True
    for line in (
        "1\tdense\t0.01639\tNear. (rank 1, weight 1, distance 0.4000)",
        "1\tlexical\t0.01613\t(rank 2, weight 1, bm25 3.5000)",
        "1\tscore\t0.03250\tsrc/retry.py:1-9",
        "1\tbm25\t2.0000\tthe word retry",
        "1\talso\t\tstands for src/retry.py:1-9 (C1)",
        "1\tallowed\t\tuser:ann reads the session; the file has no list of its own",
        "2\tbm25\t3.5000\twords are not told apart: the session has restricted files",
        "2\tbonus\t1\tits path is preferred; this comes before the score",
        "3\tcosine\t1.20000\tNear. (0.6000 × 2)",
        "3\tbm25\t-0.50000\tWords. (1.0000 × -0.5)",
        "3\tfound by\t\tmeaning, rank 1 (distance 0.4000), words, rank 2 (bm25 3.5000), names, rank 4",
        "4\tfound by\t\tno list: it holds no word and has no vector",
    ):
        assert line in shown.out.splitlines()
    assert shown.out.index("3\tcosine") < shown.out.index("3\tbm25\t-")


@pytest.mark.parametrize("command", ["ask", "search"])
def test_every_filter_and_preference_can_be_asked_for(run: Run, api: FakeApi, command: str) -> None:
    api.on("POST", "/api/rag/sessions/shop/retrieve", json_reply({"rows": []}))
    api.on("POST", "/api/rag/sessions/shop/query", json_reply({}))
    options = [
        *(
            "--layers",
            "C0,D3",
            "--path",
            "src/",
            "--path",
            "docs/",
            "--exclude",
            "src/old",
            "--exclude-like",
            "%.min.js",
        ),
        *("--prefer", "docs/", "--prefer-like", "%/api/%", "--prefer-non-tests"),
    ]
    run(command, "retry delay", "--session", "shop", *options, "--api", api.url)
    asked = api.requests[-1].json()
    assert {name: asked[name] for name in asked if name not in {"query", "question", "limit"}} == {
        "layers": ["C0", "D3"],
        "path_prefixes": ["src/", "docs/"],
        "exclude_path_prefixes": ["src/old"],
        "exclude_like_patterns": ["%.min.js"],
        "prefer_path_prefixes": ["docs/"],
        "prefer_like_patterns": ["%/api/%"],
        "prefer_non_tests": True,
    }


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
