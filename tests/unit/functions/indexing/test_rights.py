"""Who sees and changes what, by the claims of the authorizer alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.indexing_cloud import BOB, EVE, OTHER_ANN, Cloud, failed_job, opened
from tests.support.lambda_events import ANN


@pytest.mark.parametrize(
    ("claims", "status"),
    [(ANN, 200), (BOB, 200), (EVE, 404), (OTHER_ANN, 404), (None, 401), ({}, 401)],
    ids=["owner", "reader", "stranger", "other tenant", "nobody", "no claims"],
)
def test_only_readers_see_a_session_and_its_jobs(cloud: Cloud, claims: Any, status: int) -> None:
    job = opened(cloud)["job"]
    for path in (
        "/api/rag/sessions/docs",
        "/api/rag/sessions/docs/jobs",
        "/api/rag/sessions/docs/drift",
        job["links"]["self"],
        job["links"]["events"],
    ):
        reply = cloud.get(path, claims=claims, query={"wait_s": "0"})
        assert reply.status == status, path
        if status != 200:
            assert reply.error_code in ("unauthenticated", "session_not_found", "job_not_found")
    listed = cloud.get("/api/rag/sessions", claims=claims)
    assert listed.status == (401 if status == 401 else 200)
    if listed.status == 200:
        assert len(listed.json["sessions"]) == (1 if status == 200 else 0)


@pytest.mark.parametrize(
    ("claims", "status", "code"),
    [(BOB, 404, "session_not_found"), (EVE, 404, "session_not_found"), (None, 401, "unauthenticated")],
    ids=["reader", "stranger", "nobody"],
)
def test_only_the_owner_changes_a_session(cloud: Cloud, claims: Any, status: int, code: str) -> None:
    opened(cloud)
    reply = cloud.change({"changes": [{"op": "delete", "path": "a"}]}, claims=claims)
    assert (reply.status, reply.error_code) == (status, code)
    assert cloud.objects.objects == {}


def test_the_name_of_anothers_session_is_taken(cloud: Cloud) -> None:
    opened(cloud)
    reply = cloud.open({"session_id": "docs"}, claims=BOB)
    assert (reply.status, reply.error_code) == (409, "session_name_taken")


def test_identity_comes_from_the_authorizer_alone(cloud: Cloud) -> None:
    headers = {"sub": "ann", "tenant": "acme", "Authorization": "Bearer x"}
    assert cloud.get("/api/rag/sessions", claims=None, headers=headers).status == 401
    assert cloud.open({"session_id": "docs", "owner": "user:eve"}).status == 422


@pytest.mark.parametrize("action", ["cancel", "retry"])
@pytest.mark.parametrize(("claims", "status"), [(BOB, 404), (EVE, 404), (OTHER_ANN, 404), (None, 401)])
def test_only_the_owner_acts_on_a_job(cloud: Cloud, action: str, claims: Any, status: int) -> None:
    job = failed_job(cloud)
    assert cloud.act(job, action, claims=claims).status == status
    if claims in (EVE, OTHER_ANN):
        assert cloud.failures(claims=claims) == {"jobs": [], "dead_letters": []}
