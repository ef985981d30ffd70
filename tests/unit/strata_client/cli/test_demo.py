"""`strata demo`, with an API that runs already."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import Run
from tests.support.fake_api import (
    ANSWER_TEXT,
    CITATIONS,
    FakeApi,
    job_view,
    sse,
    sse_reply,
)


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
