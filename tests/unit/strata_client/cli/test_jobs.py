"""`strata jobs` and `strata sessions`: what they list, and what they refuse."""

from __future__ import annotations

from tests.support.command_line import Run
from tests.support.fake_api import (
    FakeApi,
    error_reply,
    job_view,
    json_reply,
)


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


def test_an_unknown_job_is_told_where_to_look(run: Run, api: FakeApi) -> None:
    api.on("GET", "/api/rag/jobs/job-9", error_reply(404, "job_not_found", "There is no such job."))
    assert "`strata jobs` lists yours" in run("jobs", "job-9", "--api", api.url).err
