"""Jobs are cancelled, listed when they failed, and put back."""

from __future__ import annotations

from typing import Any

import pytest

from strata.model.jobs import JobReport
from tests.support.indexing_cloud import BOB, REPORT, Cloud, failed_job, opened


def test_a_waiting_job_is_cancelled_at_once_and_the_next_one_is_worked(cloud: Cloud) -> None:
    awaiting = opened(cloud)["job"]
    first, second = (cloud.change({"changes": [{"op": "delete", "path": "a"}]}).json["job"] for _ in range(2))
    for job in (awaiting, first):
        reply = cloud.act(job, "cancel")
        assert (reply.status, reply.json["job"]["status"]) == (202, "cancelled")
    cloud.upload(f"changes/docs/{second['job_id']}.jsonl")
    assert [found for found, _ in cloud.runner.ran] == [second["job_id"]]
    assert cloud.get(second["links"]["self"]).json["status"] == "done"
    assert cloud.get(first["links"]["events"], query={"wait_s": "0"}).body.count("event: terminal") == 1


def test_a_running_job_is_cancelled_before_its_commit(cloud: Cloud) -> None:
    from strata.jobs.running import Progress

    answer = opened(cloud)

    def cancelled(found: Any, _lease: Any, progress: Any) -> JobReport:
        reply = cloud.act(found.job_id, "cancel")
        assert (reply.status, reply.json["job"]["status"]) == (202, "running")
        progress(Progress(phase="committing"))
        return pytest.fail("it went on to its commit")

    cloud.runner.work = cancelled
    cloud.upload(answer["upload"]["key"])
    assert cloud.get(answer["job"]["links"]["self"]).json["status"] == "cancelled"


def test_a_job_that_is_being_committed_can_not_be_cancelled(cloud: Cloud) -> None:
    from strata.jobs.running import Progress

    answer = opened(cloud)

    def late(found: Any, _lease: Any, progress: Any) -> JobReport:
        progress(Progress(phase="committing"))
        reply = cloud.act(found.job_id, "cancel")
        assert (reply.status, reply.error_code) == (409, "job_not_changeable")
        return REPORT

    cloud.runner.work = late
    cloud.upload(answer["upload"]["key"])
    assert cloud.get(answer["job"]["links"]["self"]).json["status"] == "done"
    assert cloud.act(answer["job"], "cancel").status == 409


def test_a_failed_job_is_listed_and_put_back_once(cloud: Cloud) -> None:
    job = failed_job(cloud)
    (listed,) = cloud.failures()["jobs"]
    assert (listed["job_id"], listed["error"]["code"]) == (job["job_id"], "corrupt_archive")
    again = cloud.act(job, "retry").json["job"]
    assert (again["status"], again["seq"]) == ("queued", 2)
    assert again["job_id"] != job["job_id"]
    cloud.obey()
    assert cloud.get(again["links"]["self"]).json["status"] == "done"
    assert cloud.failures() == {"jobs": [], "dead_letters": []}
    for done in (job, again):
        assert (cloud.act(done, "retry").status, cloud.act(done, "retry").error_code) == (409, "job_not_changeable")


def test_a_failed_job_whose_upload_is_gone_can_not_be_put_back(cloud: Cloud) -> None:
    job = failed_job(cloud)
    cloud.objects.objects.clear()
    assert (cloud.act(job, "retry").status, cloud.act(job, "retry").error_code) == (409, "upload_gone")


def test_a_dead_letter_is_put_back_once_there_is_a_session(cloud: Cloud) -> None:
    key = "uploads/docs/this im + age blah.zip"
    cloud.objects.objects[key] = b"x"
    for _ in range(3):
        cloud.upload(key)
    (letter,) = cloud.failures()["dead_letters"]
    assert (letter["object_key"], letter["session_id"]) == (key, None)
    assert cloud.failures(claims=BOB)["dead_letters"] == []  # of no session: for internal callers only
    assert cloud.act(letter["id"], "retry").status == 404
    opened(cloud)
    job = cloud.act(letter["id"], "retry").json["job"]
    cloud.obey()
    assert cloud.get(job["links"]["self"]).json["status"] == "done"
    assert cloud.failures()["dead_letters"] == []
