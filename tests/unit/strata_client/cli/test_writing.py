"""`strata index` and `strata rollback`: what is sent, waited for and told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Run
from tests.support.fake_api import (
    FakeApi,
    job_view,
    json_reply,
    sse,
    sse_reply,
)


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
    assert "`strata jobs job-1` lists them" in indexed
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
