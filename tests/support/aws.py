"""A server that speaks S3's and DynamoDB's protocols, in this process, and the project's tables and bucket on it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from strata.storage.aws import aws_client
from strata_local.serial import serialise_dynamodb
from strata_local.template import load_stack
from strata_local.up import DEFAULT_TEMPLATE


@pytest.fixture(scope="session")
def aws_endpoint() -> Iterator[str]:
    """The server's address; one server for the whole run."""
    serialise_dynamodb()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def aws_environment(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What boto3 reads; no credential of the machine is looked at."""
    values = {
        "AWS_ENDPOINT_URL": aws_endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_DYNAMODB"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def dynamodb(aws_environment: None) -> Any:
    return aws_client("dynamodb")


@pytest.fixture
def jobs_table(dynamodb: Any) -> str:
    """The name of a new, empty table with the keys and the indexes of the template's `JobsTable`."""
    return make_jobs_table(dynamodb)


@pytest.fixture
def cache_table(dynamodb: Any) -> str:
    """The name of a new, empty table with the key of the template's `CacheTable`."""
    return _make_table(dynamodb, "CacheTable")


def make_jobs_table(dynamodb: Any) -> str:
    return _make_table(dynamodb, "JobsTable")


def _make_table(dynamodb: Any, resource: str) -> str:
    stack = load_stack(DEFAULT_TEMPLATE, parameters={"IndexDatabaseUrl": "unused", "QueryDatabaseUrl": "unused"})
    (definition,) = (table.definition for table in stack.tables if resource in table.name)
    name = f"{resource}-{uuid.uuid4().hex}"
    dynamodb.create_table(**{**definition, "TableName": name})
    return name


@pytest.fixture
def s3(aws_environment: None) -> Any:
    return aws_client("s3")


@pytest.fixture
def bucket(s3: Any) -> str:
    """The name of a new, empty bucket that keeps versions."""
    name = f"bucket-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return name
