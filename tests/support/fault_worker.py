"""A worker in a process of its own, which a fault point may kill or stop: the functions as Lambda would call them.

Processes are forked from a server that has imported everything, so each costs tens of milliseconds.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import boto3

from strata.bootstrap import models
from strata.indexing import new_index
from tests.support.lambda_events import LambdaContext, load_function
from tests.support.shaky_embedder import VARIABLE, shaky_embedder

FILL_FILES = "STRATA_TEST_FILL_FILES"
"""Files of one transaction of a filling, so that few files make several."""

_CHANGES = load_function("index_changes")
_SNAPSHOT = load_function("index_snapshot")
_HANDLERS: dict[str, Callable[[dict[str, Any], Any], object]] = {
    "changes": _CHANGES.on_changes,
    "uploads": _SNAPSHOT.on_upload,
    "snapshot_http": _SNAPSHOT.http,
}


@dataclass(frozen=True)
class Context(LambdaContext):
    """One whose time runs out."""

    until_s: float = 0.0

    def get_remaining_time_in_millis(self) -> int:
        return max(0, round((self.until_s - time.monotonic()) * 1000))


def warm() -> None:
    """Let botocore read its descriptions once, before the forks."""
    for service in ("dynamodb", "s3", "lambda"):
        boto3.client(
            service,  # type: ignore[call-overload]
            region_name="eu-west-1",
            endpoint_url="http://127.0.0.1:9",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
    import strata.indexing.pipeline
    import strata.providers.hashed.embedder
    import strata.storage.dynamodb.jobs
    import strata.storage.lambda_calls
    import strata.storage.postgres.sessions
    import strata.storage.s3.objects  # noqa: F401


def work(environment: Mapping[str, str], handler: str, event: dict[str, Any], remaining_ms: int) -> None:
    """Run one event to its end; what the handler raises is the process's exit code 1."""
    os.environ.update(environment)
    logging.disable(logging.CRITICAL)
    if files := os.environ.get(FILL_FILES):
        new_index.FILL_FILES = int(files)
    if os.environ.get(VARIABLE):
        models.embedder = shaky_embedder  # type: ignore[assignment]
    try:
        until_s = time.monotonic() + remaining_ms / 1000
        _HANDLERS[handler](event, Context(aws_request_id=uuid.uuid4().hex, until_s=until_s))
    except Exception as error:
        if os.environ.get("STRATA_TEST_SHOW"):
            raise
        raise SystemExit(1) from error


warm()
