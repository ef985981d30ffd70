"""From an upload to the last event: what each function answers and does."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from strata.model.jobs import JobReport
from tests.support.indexing_cloud import COUNTERS, Cloud, opened
from tests.support.lambda_events import LambdaContext, s3_event


def test_a_snapshot_from_opening_to_the_last_event(cloud: Cloud) -> None:
    answer = opened(cloud)
    job, upload = answer["job"], answer["upload"]
    assert answer["session"] == {
        "session_id": "docs",
        "project_id": "docs",
        "repo_id": "docs",
        "owner": "user:ann",
        "readers": ["group:readers"],
        "generation": 0,
        "embedding_model": "hashed-256",
        "dimension": 256,
    }
    assert upload["key"] == f"uploads/docs/{job['job_id']}.tar.gz"
    assert (upload["fields"]["key"], upload["expires_in_s"]) == (upload["key"], 60)
    assert (job["status"], job["seq"], job["error"]) == ("awaiting_upload", None, None)

    cloud.upload(upload["key"])
    ended = cloud.get(job["links"]["self"]).json
    assert ended == job | {
        "status": "done",
        "seq": 1,
        "counters": COUNTERS,
        "chunks": 9,
        "generation": 1,
        "skipped": [{"path": "a.bin", "reason": "binary"}],
        "failed": [{"path": "b.md", "reason": "not text"}],
        "notes": [{"path": "c.py", "line": 3, "reason": "no symbols"}],
        "note_count": 1,
        "updated_at": ended["updated_at"],
    }
    assert cloud.get("/api/rag/sessions/docs/jobs").json == {"jobs": [ended]}

    events = cloud.get(job["links"]["events"], query={"after": "0"})
    assert events.headers["content-type"].startswith("text/event-stream")
    frames = events.body.split("\n\n")
    assert [frame.split("\n")[:2] for frame in frames[:3]] == [
        ["id: 1", "event: index_status"],
        ["id: 2", "event: index_status"],
        ["id: 3", "event: terminal"],
    ]
    assert json.loads(frames[2].split("data: ")[1]) == ended
    assert frames[3:] == ["retry: 500", ""]
    assert cloud.get(job["links"]["events"], headers={"Last-Event-ID": "3"}).status == 204


def test_opening_is_201_for_a_new_session_and_200_for_ones_own(cloud: Cloud) -> None:
    assert [cloud.open({"session_id": "docs"}).status for _ in range(2)] == [201, 200]
    assert cloud.open({}).json["session"]["session_id"].startswith("session-")


def test_a_request_with_files_is_a_whole_upload(cloud: Cloud) -> None:
    files: list[dict[str, Any]] = [
        {"path": "a.md", "content": "# Привет\n", "acl": [], "last_modified": "2026-11-30T12:00:00+03:00"},
        {"path": "./b//c.bin", "content_b64": base64.b64encode(b"\x00\xff").decode()},
        {"path": "d.md", "content_hash": "0" * 64, "acl": None},
    ]
    answer = opened(cloud, files=files)
    assert answer["upload"] is None
    assert (answer["job"]["status"], answer["job"]["seq"]) == ("queued", 1)
    ((key, content),) = cloud.objects.objects.items()
    assert key == f"uploads/docs/{answer['job']['job_id']}.jsonl"
    assert [json.loads(line) for line in content.splitlines()] == [
        files[0],
        files[1] | {"path": "b/c.bin"},
        files[2],
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({"session_id": "a/b"}, "session_id: must be 1 to 100 letters, digits,", id="a session's name"),
        pytest.param({"session_id": "a\n"}, "session_id: must be 1 to 100 letters, digits,", id="a line end in it"),
        pytest.param({"readers": ["bob"]}, "readers.0: must be `user:NAME` or `group:NAME`,", id="a reader"),
        pytest.param({"readers": ["user:a,group:b"]}, "readers.0: must be `user:NAME`", id="two readers in one"),
        pytest.param(
            {"files": [{"path": "a", "content_hash": "F" * 64}]},
            "files.0.content_hash: must be a SHA-256 in",
            id="hash",
        ),
        pytest.param({"files": [{"path": "a"}]}, "files.0: give `content`, `content_b64` or", id="no content"),
        pytest.param({"files": [{"path": "../a", "content": ""}]}, "'../a' leaves the project.", id="a path"),
    ],
)
def test_a_refusal_says_in_words_what_would_do(cloud: Cloud, body: dict[str, Any], message: str) -> None:
    reply = cloud.open(body)
    assert reply.status == 422
    assert reply.json["error"]["message"].startswith(message)


def test_changes_are_accepted_stored_and_worked(cloud: Cloud) -> None:
    opened(cloud)
    changes = [{"op": "upsert", "path": "a.md", "content": "x"}, {"op": "delete", "path": "b.md"}]
    reply = cloud.change({"changes": changes})
    assert reply.status == 202
    job = reply.json["job"]
    assert (job["kind"], job["status"], job["seq"]) == ("changes", "queued", 1)
    key = f"changes/docs/{job['job_id']}.jsonl"
    assert [json.loads(line) for line in cloud.objects.objects[key].splitlines()] == changes
    cloud.upload(key)
    assert cloud.get(job["links"]["self"]).json["status"] == "done"


def test_one_notification_delivered_three_times_is_one_job(cloud: Cloud) -> None:
    answer = opened(cloud)
    for _ in range(3):
        cloud.upload(answer["upload"]["key"])
    assert len(cloud.runner.ran) == 1
    job = cloud.get(answer["job"]["links"]["self"]).json
    assert (job["status"], job["counters"]) == ("done", COUNTERS)
    assert len(cloud.get("/api/rag/sessions/docs/jobs").json["jobs"]) == 1


def test_an_upload_for_no_session_is_a_dead_letter(cloud: Cloud) -> None:
    cloud.upload("uploads/nobody/this im + age blah.zip")
    assert [letter.object_key for letter in cloud.table.dead_letters.values()] == [
        "uploads/nobody/this im + age blah.zip"
    ]


def test_a_foreign_upload_is_worked_under_its_true_name(cloud: Cloud) -> None:
    opened(cloud)
    cloud.upload("uploads/docs/this im + age blah.zip")
    assert cloud.runner.formats == ["zip"]
    done = [found for found in cloud.table.jobs.values() if found.seq is not None]
    assert [found.object_key for found in done] == ["uploads/docs/this im + age blah.zip"]


def test_a_failed_job_shows_its_cause(cloud: Cloud) -> None:
    from strata.errors import UnsafeEntry

    def unsafe(*_: object) -> JobReport:
        raise UnsafeEntry("The entry '../x' leaves the project.")

    cloud.runner.work = unsafe
    answer = opened(cloud)
    cloud.upload(answer["upload"]["key"])
    job = cloud.get(answer["job"]["links"]["self"]).json
    assert job["status"] == "error"
    assert job["error"] == {"code": "unsafe_entry", "message": "The entry '../x' leaves the project."}


def test_a_test_event_of_s3_is_passed_over(cloud: Cloud) -> None:
    for handler in (cloud.snapshot.on_upload, cloud.changes.on_changes):
        assert handler({"Service": "Amazon S3", "Event": "s3:TestEvent"}, LambdaContext()) is None


def test_a_worker_out_of_time_calls_the_next_one(cloud: Cloud) -> None:
    answer = opened(cloud)
    cloud.snapshot.on_upload(s3_event(answer["upload"]["key"]), replace(LambdaContext(), remaining_ms=1_000))
    assert cloud.get(answer["job"]["links"]["self"]).json["status"] == "queued"
    cloud.obey()
    assert cloud.get(answer["job"]["links"]["self"]).json["status"] == "done"
