"""What S3 tells the workers, and what becomes of an event that fails."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest

from strata_local.up import LocalCloud
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture
def s3(cloud: LocalCloud) -> Any:
    environment = cloud.environment
    return boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name=environment["AWS_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
    )


def seen(records: Path, marker: str) -> list[dict[str, Any]]:
    documents = [json.loads(path.read_text()) for path in records.glob("*.json")]
    return [document for document in documents if marker in json.dumps(document)]


def test_an_upload_invokes_the_worker_with_key_version_and_sequencer(s3: Any, records: Path) -> None:
    version = s3.put_object(Bucket="strata-local-bucket", Key="uploads/one two/a+b.zip", Body=b"12345")["VersionId"]
    (document,) = eventually(lambda: seen(records, "one+two"))
    described = document["event"]["Records"][0]["s3"]["object"]
    assert described["key"] == "uploads/one+two/a%2Bb.zip"
    assert (described["versionId"], described["size"]) == (version, 5)
    assert int(described["sequencer"], 16) > 0


def test_sequencers_grow_with_the_writes_of_a_key(s3: Any, records: Path) -> None:
    versions = [
        s3.put_object(Bucket="strata-local-bucket", Key="uploads/again", Body=b"%d" % number)["VersionId"]
        for number in range(3)
    ]
    documents = eventually(lambda: len(found := seen(records, "uploads/again")) == 3 and found)
    objects = [document["event"]["Records"][0]["s3"]["object"] for document in documents]
    assert [each["versionId"] for each in sorted(objects, key=lambda each: each["sequencer"])] == versions


def test_a_presigned_post_invokes_the_worker(s3: Any, records: Path) -> None:
    post = s3.generate_presigned_post("strata-local-bucket", "uploads/posted.zip")
    reply = httpx.post(post["url"], data=post["fields"], files={"file": b"content"}, trust_env=False)
    assert reply.status_code == 204
    (document,) = eventually(lambda: seen(records, "uploads/posted.zip"))
    assert document["event"]["Records"][0]["eventName"] == "ObjectCreated:Post"


def test_another_prefix_invokes_nobody(s3: Any, records: Path) -> None:
    s3.put_object(Bucket="strata-local-bucket", Key="elsewhere/file", Body=b"")
    s3.put_object(Bucket="strata-local-bucket", Key="uploads/after-elsewhere", Body=b"")
    eventually(lambda: seen(records, "uploads/after-elsewhere"))
    assert seen(records, "elsewhere/file") == []


@pytest.mark.parametrize("kind", ["crash-once", "raise-once"])
def test_a_failed_event_is_delivered_again(s3: Any, records: Path, cloud: LocalCloud, kind: str) -> None:
    s3.put_object(Bucket="strata-local-bucket", Key=f"uploads/{kind}", Body=b"")
    documents = eventually(lambda: len(found := seen(records, f"uploads/{kind}")) == 2 and found)
    assert documents[0]["event"] == documents[1]["event"]
    time.sleep(0.3)
    assert len(seen(records, f"uploads/{kind}")) == 2


def test_an_event_that_fails_three_times_is_a_dead_letter(s3: Any, records: Path, cloud: LocalCloud) -> None:
    s3.put_object(Bucket="strata-local-bucket", Key="uploads/crash-always", Body=b"")
    letters = cloud.logs / "dead-letters.jsonl"
    eventually(lambda: letters.exists() and letters.read_text().endswith("\n"))
    letter = json.loads(letters.read_text().splitlines()[-1])
    assert (letter["function"], letter["attempts"], letter["error_type"]) == ("Worker", 3, "Runtime.ExitError")
    assert letter["event"]["Records"][0]["s3"]["object"]["key"] == "uploads/crash-always"
    assert len(seen(records, "uploads/crash-always")) == 3


def test_the_templates_table_is_there(cloud: LocalCloud) -> None:
    environment = cloud.environment
    dynamodb = boto3.client(
        "dynamodb",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name=environment["AWS_REGION"],
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    described = dynamodb.describe_time_to_live(TableName="strata-local-Table")["TimeToLiveDescription"]
    assert described == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}
