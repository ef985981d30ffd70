from __future__ import annotations

import uuid
from collections.abc import Iterator

import boto3
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


def stores(endpoint: str) -> tuple[dict[str, str], str, str]:
    """The environment that finds moto, a new bucket with versions, and a new table."""
    keys = {
        "endpoint_url": endpoint,
        "region_name": "eu-west-1",
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
    }
    s3, bucket = boto3.client("s3", **keys), f"bucket-{uuid.uuid4().hex}"  # type: ignore[call-overload]
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    table = make_jobs_table(boto3.client("dynamodb", **keys))  # type: ignore[call-overload]
    return {**AWS, "AWS_ENDPOINT_URL": endpoint}, bucket, table


@pytest.fixture(scope="module")
def shared_world(module_postgres: TestDatabase, aws_endpoint: str) -> Iterator[World]:
    with world(module_postgres, *stores(aws_endpoint)) as made:
        yield made
