from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import psycopg
import pytest

from tests.support.aws import aws_endpoint, make_jobs_table
from tests.support.fault_world import World, world
from tests.support.postgres import TestDatabase

__all__ = ["aws_endpoint"]

AWS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "eu-west-1",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(autouse=True, scope="session")
def quiet_server() -> None:
    """Tens of thousands of requests: their log would fill the memory of the run."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)


def client(service: str, endpoint: str) -> Any:
    return boto3.client(
        service,  # type: ignore[call-overload]
        endpoint_url=endpoint,
        region_name="eu-west-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


def stores(endpoint: str) -> tuple[dict[str, str], str, str]:
    """The environment that finds moto, a new bucket with versions, and a new table."""
    s3, bucket = client("s3", endpoint), f"bucket-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    table = make_jobs_table(client("dynamodb", endpoint))
    return {**AWS, "AWS_ENDPOINT_URL": endpoint}, bucket, table


@contextmanager
def impatient(database: TestDatabase) -> Iterator[None]:
    """A transaction that stands still is ended after two seconds instead of a minute."""
    setting = f"ALTER ROLE strata_index IN DATABASE {database.name} {{}} idle_in_transaction_session_timeout"
    _as_owner(database, setting.format("SET") + " = '2s'")
    yield
    _as_owner(database, setting.format("RESET"))


def _as_owner(database: TestDatabase, statement: str) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        owner.execute(statement.encode())


@pytest.fixture(scope="module")
def shared_world(module_postgres: TestDatabase, aws_endpoint: str) -> Iterator[World]:
    """One for the tests of a module, each with sessions of its own."""
    with world(module_postgres, *stores(aws_endpoint)) as made:
        yield made


@pytest.fixture
def small_world(module_postgres: TestDatabase, aws_endpoint: str) -> Iterator[World]:
    """A new table and bucket for each test: moto looks at every item to answer a query of an index."""
    environment, bucket, table = stores(aws_endpoint)
    with world(module_postgres, environment, bucket, table) as made:
        yield made
        client("dynamodb", aws_endpoint).delete_table(TableName=table)
