"""A session's readers, its drift, its deletion, its roll-back."""

from __future__ import annotations

from typing import Any

import pytest

from strata.model.jobs import JobReport
from tests.support.indexing_cloud import BOB, EVE, Cloud, opened
from tests.support.lambda_events import call, rest_event


def test_drift_is_told_by_place_and_kind(cloud: Cloud) -> None:
    opened(cloud)
    assert cloud.get("/api/rag/sessions/docs/drift").json == {
        "session_id": "docs",
        "drift": [
            {"path": "docs/a.md", "line": 3, "kind": "symbol", "name": "shop.Gone", "known": "shop"},
            {"path": "docs/a.md", "line": 9, "kind": "file", "name": "src/gone.py", "known": None},
        ],
        "truncated": False,
    }


@pytest.mark.parametrize("name", ["docs/a.md", "shop.Order"])
def test_links_are_those_of_a_path_or_of_a_symbol(cloud: Cloud, name: str) -> None:
    opened(cloud)
    found = cloud.get("/api/rag/sessions/docs/links", query={"name": name})
    assert found.json == {
        "session_id": "docs",
        "uses": [
            {"kind": "mentions", "path": "docs/a.md", "line": 3, "symbol": "", "target": "shop.Order",
             "leads_to": {"path": "shop/orders.py", "name": "shop.orders.Order", "line": 7}},
        ],
        "used_by": [],
        "truncated": False,
    }  # fmt: skip
    unknown = cloud.get("/api/rag/sessions/docs/links", query={"name": "nothing"})
    assert (unknown.status, unknown.json["uses"], unknown.json["used_by"]) == (200, [], [])


@pytest.mark.parametrize("query", [{}, {"name": ""}, {"name": "a\x00b"}, {"name": "x" * 5_000}])
def test_a_name_that_can_not_be_one_has_no_links(cloud: Cloud, query: dict[str, str]) -> None:
    opened(cloud)
    assert cloud.get("/api/rag/sessions/docs/links", query=query).status == 422
    assert cloud.get("/api/rag/sessions/unknown/links", query={"name": "a"}).status == 404


def test_a_roll_back_is_accepted_and_worked(cloud: Cloud) -> None:
    opened(cloud)
    reply = call(cloud.changes.http, rest_event("POST", "/api/rag/sessions/docs/rollback"))
    job = reply.json["job"]
    assert (reply.status, job["kind"], job["status"]) == (202, "rollback", "queued")
    cloud.upload(f"changes/docs/{job['job_id']}.jsonl")
    assert cloud.runner.formats == ["rollback"]
    assert cloud.get(job["links"]["self"]).json["status"] == "done"
    unknown = call(cloud.changes.http, rest_event("POST", "/api/rag/sessions/nobody/rollback"))
    assert (unknown.status, unknown.error_code) == (404, "session_not_found")


def test_readers_change_at_once(cloud: Cloud) -> None:
    opened(cloud)
    path = "/api/rag/sessions/docs"
    assert cloud.get(path, claims=EVE).status == 404
    reply = call(cloud.snapshot.http, rest_event("PATCH", path, body={"readers": ["user:eve", "user:eve"]}))
    assert (reply.status, reply.json["readers"]) == (200, ["user:eve"])
    assert (cloud.get(path, claims=EVE).status, cloud.get(path, claims=BOB).status) == (200, 404)
    for claims, status in ((EVE, 404), (BOB, 404), (None, 401)):
        assert (
            call(cloud.snapshot.http, rest_event("PATCH", path, body={"readers": []}, claims=claims)).status == status
        )
    assert call(cloud.snapshot.http, rest_event("PATCH", path, body={"readers": ["eve"]})).status == 422


def test_a_deleted_session_is_gone_at_once_and_its_name_is_free_after_the_purge(cloud: Cloud) -> None:
    answer = opened(cloud)
    cloud.objects.objects[answer["upload"]["key"]] = b"x"
    cloud.upload(answer["upload"]["key"])
    waiting = cloud.change({"changes": [{"op": "delete", "path": "a"}]}).json["job"]
    for claims, status in ((BOB, 404), (EVE, 404), (None, 401)):
        assert cloud.delete(claims=claims).status == status
    reply = cloud.delete()
    assert (reply.status, reply.body) == (204, "")
    for path in ("/api/rag/sessions/docs", answer["job"]["links"]["self"], waiting["links"]["events"]):
        assert cloud.get(path).status == 404
    assert cloud.delete().status == 404
    refused = cloud.open({"session_id": "docs"})
    assert (refused.status, refused.error_code) == (409, "session_name_taken")
    cloud.clock.sleep(1)
    cloud.obey()
    assert (cloud.objects.objects, cloud.table.jobs, cloud.table.sessions) == ({}, {}, {})
    assert cloud.open({"session_id": "docs"}).status == 201
    cloud.upload(cloud.open({"session_id": "docs"}).json["upload"]["key"])
    assert len(cloud.runner.ran) == 2  # the waiting job of the old session was never worked


def test_a_running_job_ends_with_its_session(cloud: Cloud) -> None:
    from strata.jobs.running import Progress

    answer = opened(cloud)

    def deleted(_found: Any, _lease: Any, progress: Any) -> JobReport:
        cloud.clock.sleep(1)
        assert cloud.delete().status == 204
        cloud.obey()
        progress(Progress(phase="committing"))
        return pytest.fail("it went on to its commit")

    cloud.runner.work = deleted
    cloud.upload(answer["upload"]["key"])
    assert (cloud.table.jobs, cloud.table.sessions) == ({}, {})
    assert cloud.get("/api/rag/sessions/docs").status == 404
