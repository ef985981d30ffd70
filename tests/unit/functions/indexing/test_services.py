"""Routes for services: files in the body, the final counters in the reply."""

from __future__ import annotations

import re
from typing import Any

import pytest

from strata.model.corpus import ReportedFile
from strata.model.jobs import JobReport
from tests.support.indexing_cloud import BOB, COUNTERS, Cloud
from tests.support.lambda_events import call, rest_event


@pytest.fixture
def prompt_cloud(cloud: Cloud) -> Cloud:
    """Every object is worked on before its `put` returns."""
    put = cloud.objects.put

    def put_and_notify(key: str, body: bytes, *, content_type: str) -> Any:
        stored = put(key, body, content_type=content_type)
        cloud.upload(key, version=stored.version or "")
        return stored

    cloud.objects.put = put_and_notify  # type: ignore[method-assign]
    return cloud


def test_a_service_sends_files_and_gets_the_final_counters(prompt_cloud: Cloud) -> None:
    cloud = prompt_cloud
    body = {"session_id": "docs", "files": [{"path": "a.md", "content": "# A"}]}
    reply = call(cloud.snapshot.http, rest_event("POST", "/internal/rag/index/snapshot", body=body))
    assert (reply.status, reply.json["job"]["status"], reply.json["job"]["counters"]) == (200, "done", COUNTERS)
    changes = {"session_id": "docs", "changes": [{"op": "delete", "path": "a.md"}]}
    reply = call(cloud.changes.http, rest_event("POST", "/internal/rag/index/changes", body=changes))
    assert (reply.status, reply.json["job"]["status"], reply.json["job"]["kind"]) == (200, "done", "changes")


def test_a_service_may_ask_for_a_new_index(prompt_cloud: Cloud) -> None:
    body = {"session_id": "docs", "files": [{"path": "a.md", "content": "# A"}]}
    for asked in ({}, {"reindex": True}):
        call(prompt_cloud.snapshot.http, rest_event("POST", "/internal/rag/index/snapshot", body=body | asked))
    assert [prompt_cloud.table.jobs[job_id].reindex for job_id, _ in prompt_cloud.runner.ran] == [False, True]


def test_no_route_names_a_file_of_a_report_to_whom_its_acl_does_not_name(prompt_cloud: Cloud) -> None:
    def files(kind: str) -> tuple[ReportedFile, ...]:
        acls = {"open": None, "bobs": ("user:bob",), "anns": ("user:ann",), "hidden": ()}
        return tuple(ReportedFile(path=f"{kind}-{name}.md", reason="r", acl=acl) for name, acl in acls.items())

    cloud = prompt_cloud
    report = JobReport(skipped=files("skipped"), failed=files("failed"), notes=files("notes"))
    cloud.runner.work = lambda _job, _lease, _progress: report
    body: dict[str, Any] = {"session_id": "docs", "files": [{"path": "a.md", "content": "x"}]}
    replies = [cloud.open(body | {"readers": ["user:bob"]})]
    links = replies[0].json["job"]["links"]
    routes = (links["self"], links["events"], "/api/rag/sessions/docs/jobs")
    replies += [cloud.get(route) for route in routes]
    changes = {"session_id": "docs", "changes": [{"op": "delete", "path": "a.md"}]}
    replies += [
        call(cloud.snapshot.http, rest_event("POST", "/internal/rag/index/snapshot", body=body)),
        call(cloud.changes.http, rest_event("POST", "/internal/rag/index/changes", body=changes)),
        cloud.change({"changes": changes["changes"]}),
    ]
    for who, seen in (("anns", replies), ("bobs", [cloud.get(route, claims=BOB) for route in routes])):
        shown = [set(re.findall(r"(?:skipped|failed|notes)-(\w+)\.md", reply.body)) for reply in seen]
        assert shown == [{"open", who}] * len(seen)


def test_a_services_job_that_takes_longer_is_answered_as_it_is(cloud: Cloud) -> None:
    body = {"session_id": "docs", "files": [{"path": "a.md", "content": "# A"}]}
    reply = call(cloud.snapshot.http, rest_event("POST", "/internal/rag/index/snapshot", body=body))
    assert (reply.status, reply.json["job"]["status"]) == (202, "queued")


@pytest.mark.parametrize(("claims", "status"), [(BOB, 403), (None, 401)])
def test_internal_routes_are_for_services(cloud: Cloud, claims: Any, status: int) -> None:
    body = {"session_id": "docs", "files": [{"path": "a.md", "content": "# A"}]}
    assert (
        call(cloud.snapshot.http, rest_event("POST", "/internal/rag/index/snapshot", body=body, claims=claims)).status
        == status
    )
    changes = {"session_id": "docs", "changes": [{"op": "delete", "path": "a.md"}]}
    assert (
        call(cloud.changes.http, rest_event("POST", "/internal/rag/index/changes", body=changes, claims=claims)).status
        == status
    )
    assert cloud.table.jobs == {}
