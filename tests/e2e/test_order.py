"""Rights, cancel, retry, deletion, services and the sweep through the whole local cloud; the embedder is `hashed`."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import boto3
import httpx
import pytest

from strata_client.client import StrataClient
from strata_client.errors import StrataApiError
from strata_local.tokens import dev_token
from strata_local.up import LocalCloud
from tests.support.courier import FILES, paths_found, send_change, snapshot, tar_gz

pytestmark = pytest.mark.e2e


@pytest.fixture
def as_user(cloud: LocalCloud) -> Iterator[Callable[..., StrataClient]]:
    made: list[StrataClient] = []

    def client_of(user: str) -> StrataClient:
        token = dev_token(cloud.data_directory, user)
        made.append(StrataClient(cloud.api_url, token))
        return made[-1]

    yield client_of
    for each in made:
        each.close()


def soon(check: Callable[[], Any], within_s: float = 90.0) -> Any:
    limit = time.monotonic() + within_s
    while not (found := check()):
        assert time.monotonic() < limit
        time.sleep(0.2)
    return found


def refused(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(StrataApiError) as caught:
        call()
    return caught.value.status, caught.value.code


def test_a_files_rights_change_by_hash_alone_at_once_without_embedding(
    client: StrataClient, as_user: Callable[..., StrataClient]
) -> None:
    client.create_session("rights", readers=["user:bob"])
    assert snapshot(client, "rights", tar_gz(FILES))["status"] == "done"
    bob, path = as_user("bob"), "docs/webhooks.md"
    assert path in paths_found(bob, "rights", "reset the webhook secret")
    content_hash = hashlib.sha256(FILES[path].encode()).hexdigest()

    job = client.changes("rights", [{"op": "upsert", "path": path, "content_hash": content_hash, "acl": ["user:ann"]}])
    ended = client.wait_for(job["job_id"], timeout_s=60)

    assert ended["status"] == "done"
    assert (ended["counters"]["cache_miss_files"], ended["counters"]["failed_files"]) == (0, 0)
    assert path not in paths_found(bob, "rights", "reset the webhook secret")
    job = client.changes("rights", [{"op": "upsert", "path": path, "content_hash": content_hash, "acl": None}])
    assert client.wait_for(job["job_id"], timeout_s=60)["counters"]["cache_miss_files"] == 0
    assert path in paths_found(bob, "rights", "reset the webhook secret")


def test_a_restricted_file_that_comes_back_is_restricted_however_it_comes(
    cloud: LocalCloud, client: StrataClient, as_user: Callable[..., StrataClient]
) -> None:
    path, bob = "docs/webhooks.md", as_user("bob")
    file = {"path": path, "content": FILES[path]}

    def internal(route: str, **body: Any) -> str:
        with httpx.Client(base_url=cloud.api_url, timeout=60) as http:
            reply = http.post(f"/internal/rag/index/{route}", json={"session_id": "returns", **body})
            return str(reply.json()["job"]["status"])

    def changed(*changes: dict[str, Any]) -> str:
        return str(client.wait_for(client.changes("returns", list(changes))["job_id"], timeout_s=60)["status"])

    client.create_session("returns", readers=["user:bob"])
    assert changed({"op": "upsert", **file, "acl": ["user:ann"]}) == "done"
    others = {name: text for name, text in FILES.items() if name != path}
    for bring_back in (
        lambda: snapshot(client, "returns", tar_gz(FILES))["status"],
        lambda: changed({"op": "upsert", **file}),
        lambda: internal("snapshot", files=[file]),
        lambda: internal("changes", changes=[{"op": "upsert", **file}]),
    ):
        assert snapshot(client, "returns", tar_gz(others))["status"] == "done"
        assert bring_back() == "done"
        assert path not in paths_found(bob, "returns", "reset the webhook secret")
    assert internal("changes", changes=[{"op": "upsert", **file, "acl": None}]) == "done"
    assert path in paths_found(bob, "returns", "reset the webhook secret")


def test_readers_change_at_once(client: StrataClient, as_user: Callable[..., StrataClient]) -> None:
    assert snapshot(client, "shared", tar_gz(FILES))["status"] == "done"
    eve = as_user("eve")
    assert refused(lambda: eve.retrieve("shared", "webhook")) == (404, "session_not_found")
    client.set_readers("shared", ["user:eve"])
    assert paths_found(eve, "shared", "webhook")
    assert refused(lambda: eve.set_readers("shared", [])) == (404, "session_not_found")
    client.set_readers("shared", [])
    assert refused(lambda: eve.retrieve("shared", "webhook")) == (404, "session_not_found")


def test_a_failed_job_is_listed_and_put_back(client: StrataClient) -> None:
    job = snapshot(client, "broken", b"this is no archive")
    assert (job["status"], job["error"] and job["error"]["code"]) == ("error", "corrupt_archive")
    assert job["job_id"] in [failed["job_id"] for failed in client.failures()["jobs"]]
    again = client.retry_job(job["job_id"])
    assert client.wait_for(again["job_id"], timeout_s=60)["status"] == "error"
    assert refused(lambda: client.retry_job(job["job_id"])) == (409, "job_not_changeable")
    assert refused(lambda: client.cancel_job(job["job_id"])) == (409, "job_not_changeable")


def test_an_upload_that_was_only_announced_is_cancelled(client: StrataClient) -> None:
    job = client.create_session("announced")["job"]
    assert client.cancel_job(job["job_id"])["status"] == "cancelled"
    assert client.wait_for(job["job_id"], timeout_s=60)["status"] == "cancelled"


def test_a_deleted_session_is_gone_with_its_uploads_and_its_name_comes_back_empty(
    cloud: LocalCloud, client: StrataClient
) -> None:
    job = snapshot(client, "gone", tar_gz(FILES))
    assert client.answer("gone", "How do I reset the webhook secret?")["answer"]["text"]
    client.delete_session("gone")
    for call in (
        lambda: client.retrieve("gone", "webhook"),
        lambda: client.answer("gone", "How do I reset the webhook secret?"),
        lambda: client.session("gone"),
        lambda: client.job(job["job_id"]),
        lambda: client.delete_session("gone"),
    ):
        assert refused(call)[0] == 404

    def reopened() -> bool:
        try:
            client.create_session("gone")
        except StrataApiError as error:
            if error.code != "session_name_taken":
                raise
            return False
        return True

    soon(reopened)
    assert client.retrieve("gone", "webhook")["rows"] == []
    assert client.answer("gone", "How do I reset the webhook secret?")["answer"]["abstained"]
    s3 = boto3.client("s3", endpoint_url=cloud.environment["AWS_ENDPOINT_URL"], region_name="us-east-1",
                      aws_access_key_id="x", aws_secret_access_key="x")  # fmt: skip
    assert "Versions" not in s3.list_object_versions(Bucket=cloud.environment["STRATA_BUCKET"], Prefix="uploads/gone/")


def test_a_service_gets_the_final_counters_with_its_answer(cloud: LocalCloud) -> None:
    files = [{"path": path, "content": text} for path, text in FILES.items()]
    with httpx.Client(base_url=cloud.api_url, timeout=60) as http:
        reply = http.post("/internal/rag/index/snapshot", json={"session_id": "service", "files": files})
        assert (reply.status_code, reply.json()["job"]["status"]) == (200, "done")
        assert reply.json()["job"]["counters"]["indexed_files"] == len(FILES)
        changes = [{"op": "delete", "path": "README.md"}]
        reply = http.post("/internal/rag/index/changes", json={"session_id": "service", "changes": changes})
        assert (reply.status_code, reply.json()["job"]["counters"]["deleted_files"]) == (200, 1)
        token = dev_token(cloud.data_directory, "eve")
        reply = http.post(
            "/internal/rag/index/snapshot",
            json={"session_id": "service", "files": files},
            headers={"Authorization": f"Bearer {token}"},
        )
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "forbidden")


def test_twenty_senders_at_once_each_in_its_own_process(cloud: LocalCloud, client: StrataClient) -> None:
    """A public report's case 56: one job runs at a time, in the order of acceptance; the index is one of the inputs."""
    assert snapshot(client, "raced", tar_gz(FILES))["status"] == "done"
    texts = [f"# Number {number}\n" for number in range(20)]
    with ProcessPoolExecutor(len(texts), mp_context=get_context("forkserver")) as senders:
        sent = [senders.submit(send_change, cloud.api_url, "raced", "shared.md", text) for text in texts]
        text_of = dict(zip((future.result() for future in sent), texts, strict=True))
    ended = sorted((client.wait_for(job_id, timeout_s=120) for job_id in text_of), key=lambda job: job["seq"] or 0)
    assert {job["status"] for job in ended} == {"done"}
    assert [job["seq"] for job in ended] == list(range(2, 22))
    assert [job["generation"] for job in ended] == list(range(2, 22))
    rows = client.retrieve("raced", "Number", limit=20, path_prefixes=["shared.md"])["rows"]
    assert {row["content"].strip() for row in rows if row["layer"].startswith("D3")} == {
        text_of[ended[-1]["job_id"]].strip()
    }


def test_the_sweep_finds_work_that_nobody_is_doing(cloud: LocalCloud, client: StrataClient) -> None:
    """A job whose notification was lost: what the sweep's own schedule does, called by hand."""
    assert snapshot(client, "swept", tar_gz(FILES))["status"] == "done"
    dynamodb = boto3.client("dynamodb", endpoint_url=cloud.environment["AWS_ENDPOINT_URL"], region_name="us-east-1",
                            aws_access_key_id="x", aws_secret_access_key="x")  # fmt: skip
    table = cloud.environment["STRATA_JOBS_TABLE"]
    job = client.create_session("swept")["job"]
    key = {"pk": {"S": f"job#{job['job_id']}"}, "sk": {"S": "job"}}
    dynamodb.update_item(
        TableName=table,
        Key=key,
        UpdateExpression="SET list_at_ms = :past",
        ExpressionAttributeValues={":past": {"N": "1"}},
    )
    (reply,) = list(cloud.functions["Sweep"].invoke(b"{}"))
    assert json.loads(reply.payload)["expired"] == 1  # type: ignore[union-attr]
    assert client.job(job["job_id"])["status"] == "expired"

    order = {"pk": {"S": "session#swept"}, "sk": {"S": "order"}}
    dynamodb.update_item(
        TableName=table,
        Key=order,
        UpdateExpression="SET list_name = :waiting, list_at_ms = :past",
        ExpressionAttributeValues={":waiting": {"S": "waiting_sessions"}, ":past": {"N": "1"}},
    )
    (reply,) = list(cloud.functions["Sweep"].invoke(b"{}"))
    assert json.loads(reply.payload)["sessions"] == 1  # type: ignore[union-attr]
    soon(lambda: "list_name" not in dynamodb.get_item(TableName=table, Key=order)["Item"])
