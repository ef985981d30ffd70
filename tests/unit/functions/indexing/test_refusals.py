"""What the routes refuse, with which status, and that nothing is made."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.factories import job_id
from tests.support.indexing_cloud import Cloud, opened
from tests.support.lambda_events import Reply, call, rest_event


@pytest.mark.parametrize(
    "path",
    [
        "/api/rag/sessions/unknown",
        "/api/rag/sessions/a b",
        "/api/rag/sessions/..",
        "/api/rag/sessions/x\x00y",
        "/api/rag/sessions/unknown/jobs",
        "/api/rag/sessions/unknown/drift",
        "/api/rag/sessions/x\x00y/drift",
        f"/api/rag/jobs/{job_id(404)}",
        f"/api/rag/jobs/{job_id(404)}/events",
        "/api/rag/jobs/1",
        "/api/rag/jobs/" + "x" * 5_000,
        "/api/rag/jobs/%00",
        "/api/rag/nothing",
        "/",
    ],
)
def test_what_is_not_there_is_404(cloud: Cloud, path: str) -> None:
    reply = cloud.get(path)
    assert reply.status == 404
    assert reply.error_code in ("session_not_found", "job_not_found", "route_not_found")


def test_changes_of_an_unknown_session_are_404(cloud: Cloud) -> None:
    reply = cloud.change({"changes": [{"op": "delete", "path": "a"}]}, session_id="unknown")
    assert (reply.status, reply.error_code) == (404, "session_not_found")


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH"])
def test_a_method_that_no_route_has_is_405(cloud: Cloud, method: str) -> None:
    for handler in (cloud.snapshot.http, cloud.status.http):
        reply = call(handler, rest_event(method, "/api/rag/sessions"))
        assert (reply.status, reply.error_code) == (405, "method_not_allowed")


FILE: dict[str, object] = {"path": "a.md", "content": "x"}

BAD_SNAPSHOTS: dict[str, object] = {
    "no body": None,
    "no JSON": "{",
    "a list": [],
    "binary": b"\xff\x00",
    "an unknown field": {"tenant": "other"},
    "a session name with a slash": {"session_id": "a/b"},
    "a session name that is too long": {"session_id": "a" * 101},
    "a session name that ends with a line": {"session_id": "docs\n"},
    "an unknown format": {"format": "rar"},
    "a reader that is no principal": {"readers": ["ann"]},
    "a reader with a comma": {"readers": ["group:a,b"]},
    "a number for a name": {"session_id": 7},
    "no files at all": {"files": []},
    "a file without a path": {"files": [{"content": "x"}]},
    "a file without content": {"files": [{"path": "a.md"}]},
    "a file with two contents": {"files": [FILE | {"content_b64": "eA=="}]},
    "a file in broken base64": {"files": [{"path": "a.md", "content_b64": "%%%"}]},
    "a hash that is none": {"files": [FILE | {"content_hash": "abc"}]},
    "a time without a zone": {"files": [FILE | {"last_modified": "2026-11-30T12:00:00"}]},
    "an operation in a snapshot": {"files": [FILE | {"op": "delete"}]},
    "a reader with a NUL": {"readers": ["user:a\x00"]},
    "a reader with half a character": '{"readers": ["user:\\udc00"]}',
    "half a character in a name": '{"files": [{"path": "a.md", "content": "", "acl": ["user:\\udc00"]}]}',
    "half a character": '{"files": [{"path": "a.md", "content": "\\ud800"}]}',
}


@pytest.mark.parametrize("body", BAD_SNAPSHOTS.values(), ids=BAD_SNAPSHOTS.keys())
def test_a_bad_snapshot_request_is_422_and_makes_nothing(cloud: Cloud, body: object) -> None:
    reply = cloud.open(body)
    assert (reply.status, reply.error_code) == (422, "invalid_request")
    assert cloud.table.jobs == {}


BAD_CHANGES: dict[str, object] = {
    "no body": None,
    "no changes": {"changes": []},
    "no list": {"changes": {}},
    "an unknown operation": {"changes": [{"op": "rename", "path": "a"}]},
    "no operation": {"changes": [FILE]},
    "an upsert without content": {"changes": [{"op": "upsert", "path": "a"}]},
    "a delete with content": {"changes": [{"op": "delete", "path": "a", "content": "x"}]},
    "an unknown field": {"changes": [{"op": "delete", "path": "a"}], "force": True},
}


@pytest.mark.parametrize("body", BAD_CHANGES.values(), ids=BAD_CHANGES.keys())
def test_bad_changes_are_422_and_make_nothing(cloud: Cloud, body: object) -> None:
    opened(cloud)
    reply = cloud.change(body)
    assert (reply.status, reply.error_code) == (422, "invalid_request")
    assert len(cloud.table.jobs) == 1


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "C:/x", "a\\b", "", "a/", "x" * 1_001, "a\x00b"])
def test_a_path_that_leaves_the_project_is_refused_at_once(cloud: Cloud, path: str) -> None:
    opened(cloud)
    makers: tuple[Callable[[], Reply], ...] = (
        lambda: cloud.open({"session_id": "docs", "files": [{"path": path, "content": "x"}]}),
        lambda: cloud.change({"changes": [{"op": "delete", "path": path}]}),
    )
    for make in makers:
        reply = make()
        assert (reply.status, reply.error_code) == (422, "invalid_path")
    assert cloud.objects.objects == {}


def test_more_than_a_request_may_carry_is_413(cloud: Cloud) -> None:
    opened(cloud)
    large = "x" * 10_001
    for reply in (
        cloud.open({"session_id": "docs", "files": [{"path": "a.md", "content": large}]}),
        cloud.change({"changes": [{"op": "upsert", "path": "a.md", "content": large}]}),
    ):
        assert (reply.status, reply.error_code) == (413, "upload_too_large")
    assert cloud.objects.objects == {}


def test_the_documents_declare_what_the_routes_answer(cloud: Cloud) -> None:
    declared = {
        (module.app.title, method, path): set(operation["responses"])
        for module in (cloud.snapshot, cloud.changes, cloud.status)
        for path, operations in module.app.openapi()["paths"].items()
        for method, operation in operations.items()
    }
    always = {"401", "422", "500", "503"}
    assert declared == {
        ("Strata: snapshots", "post", "/api/rag/sessions"): {"200", "201", "409", "413"} | always,
        ("Strata: snapshots", "patch", "/api/rag/sessions/{session_id}"): {"200", "404"} | always,
        ("Strata: snapshots", "delete", "/api/rag/sessions/{session_id}"): {"204", "404"} | always,
        ("Strata: snapshots", "post", "/internal/rag/index/snapshot"): {"200", "202", "403", "409", "413"} | always,
        ("Strata: changes", "post", "/api/rag/sessions/{session_id}/changes"): {"202", "404", "409", "413"} | always,
        ("Strata: changes", "post", "/api/rag/sessions/{session_id}/rollback"): {"202", "404"} | always,
        ("Strata: changes", "post", "/internal/rag/index/changes"): {"200", "202", "403", "404", "409", "413"} | always,
        ("Strata: jobs", "get", "/api/rag/jobs"): {"200"} | always,
        ("Strata: jobs", "post", "/api/rag/jobs/{job_id}/cancel"): {"202", "404", "409"} | always,
        ("Strata: jobs", "post", "/api/rag/jobs/{job_id}/retry"): {"202", "404", "409"} | always,
        ("Strata: jobs", "get", "/api/rag/sessions"): {"200"} | always,
        ("Strata: jobs", "get", "/api/rag/sessions/{session_id}"): {"200", "404"} | always,
        ("Strata: jobs", "get", "/api/rag/sessions/{session_id}/jobs"): {"200", "404"} | always,
        ("Strata: jobs", "get", "/api/rag/sessions/{session_id}/drift"): {"200", "404"} | always,
        ("Strata: jobs", "get", "/api/rag/sessions/{session_id}/links"): {"200", "404"} | always,
        ("Strata: jobs", "get", "/api/rag/jobs/{job_id}"): {"200", "404"} | always,
        ("Strata: jobs", "get", "/api/rag/jobs/{job_id}/events"): {"200", "204", "404"} | always,
    }
    for module in (cloud.snapshot, cloud.changes, cloud.status):
        assert "HTTPValidationError" not in json.dumps(module.app.openapi())
