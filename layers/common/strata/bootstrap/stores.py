"""The stores that the settings name."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from strata.bootstrap import environment
from strata.errors import ConfigurationError
from strata.ports.blobs import BlobCache
from strata.ports.jobs import JobStore
from strata.ports.locking import SessionLock
from strata.ports.objects import ObjectStore
from strata.ports.search import ChunkSearch, LinkReader
from strata.ports.sessions import SessionStore
from strata.ports.workers import WorkerCalls

if TYPE_CHECKING:
    from strata.storage.dynamodb.client import Table
    from strata.storage.dynamodb.query_cache import DynamoQueryCache
    from strata.storage.postgres.connection import Database


@cache
def session_store() -> SessionStore:
    from strata.storage.postgres.sessions import PostgresSessionStore

    return PostgresSessionStore(database())


@cache
def blob_cache() -> BlobCache:
    from strata.storage.postgres.cache import PostgresBlobCache

    return PostgresBlobCache(database())


@cache
def chunk_search() -> ChunkSearch:
    from strata.storage.postgres.search import PostgresSearch

    return PostgresSearch(database())


@cache
def link_reader() -> LinkReader:
    from strata.storage.postgres.links import PostgresLinks

    return PostgresLinks(database())


@cache
def job_store() -> JobStore:
    from strata.storage.dynamodb.jobs import DynamoJobStore

    return DynamoJobStore(table=jobs_table(), clock=environment.clock())


@cache
def session_lock() -> SessionLock:
    from strata.storage.dynamodb.lock import DynamoSessionLock

    return DynamoSessionLock(table=jobs_table(), clock=environment.clock())


@cache
def object_store() -> ObjectStore:
    from strata.storage.aws import aws_client
    from strata.storage.s3.objects import S3ObjectStore

    return S3ObjectStore(client=aws_client("s3"), bucket=environment.settings().storage.bucket)


@cache
def worker_calls() -> WorkerCalls:
    from strata.storage.aws import aws_client
    from strata.storage.lambda_calls import LambdaWorkerCalls

    function = environment.settings().storage.worker_function or os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "")
    if not function:
        raise ConfigurationError("STRATA_WORKER_FUNCTION is not set.")
    return LambdaWorkerCalls(client=aws_client("lambda"), function=function)


@cache
def database() -> Database:
    from strata.storage.postgres.connection import Database

    url = environment.settings().storage.database_url
    if not url:
        raise ConfigurationError("STRATA_DATABASE_URL is not set.")
    return Database(url)


@cache
def _dynamodb() -> Any:
    from strata.storage.aws import aws_client

    return aws_client("dynamodb")


@cache
def jobs_table() -> Table:
    from strata.storage.dynamodb.client import Table

    return Table(client=_dynamodb(), name=environment.settings().storage.jobs_table)


@cache
def query_cache() -> DynamoQueryCache:
    from strata.storage.aws import aws_client
    from strata.storage.dynamodb.client import Table
    from strata.storage.dynamodb.query_cache import DynamoQueryCache

    # A cache that is slower than the search is none: give up early.
    client = aws_client("dynamodb", connect_timeout_s=0.5, read_timeout_s=0.5, attempts=1)
    table = Table(client=client, name=environment.settings().storage.cache_table)
    return DynamoQueryCache(table=table, clock=environment.clock())
