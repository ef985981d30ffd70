from __future__ import annotations

import pytest

from strata.storage.dynamodb.client import Table
from strata.storage.dynamodb.jobs import DynamoJobStore
from strata.storage.dynamodb.lock import DynamoSessionLock
from tests.support.aws import aws_endpoint, aws_environment, bucket, cache_table, dynamodb, jobs_table, s3
from tests.support.fake_clock import FakeClock
from tests.support.fake_jobs import FakeJobStore, FakeJobTable
from tests.support.fake_lock import FakeSessionLock
from tests.support.job_kit import Kit

__all__ = ["aws_endpoint", "aws_environment", "bucket", "cache_table", "dynamodb", "jobs_table", "s3"]


@pytest.fixture(params=["fake", "dynamodb"])
def kit(request: pytest.FixtureRequest) -> Kit:
    clock = FakeClock()
    if request.param == "fake":
        shared = FakeJobTable(clock=clock)
        return Kit(FakeJobStore(shared), FakeSessionLock(shared), clock)
    table = Table(client=request.getfixturevalue("dynamodb"), name=request.getfixturevalue("jobs_table"))
    return Kit(DynamoJobStore(table=table, clock=clock), DynamoSessionLock(table=table, clock=clock), clock)
