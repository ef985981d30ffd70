"""A worker's events: S3 notifications → the objects that they are about, and other functions' orders."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from strata.jobs.naming import UploadedObject
from strata.ports.workers import WorkOrder


def uploads_in(event: Mapping[str, Any]) -> list[UploadedObject]:
    """The created objects of a notification, in its order; none for S3's test event.

    Keys come form-encoded: a plus is a blank, `%2B` is a plus.

    >>> event = {"Records": [{"eventName": "ObjectCreated:Put", "s3": {"object": {"key": "a+b%2Bc", "size": 1}}}]}
    >>> uploads_in(event)[0].key
    'a b+c'
    """
    return [
        UploadedObject(
            key=unquote_plus(stored["key"]),
            size_bytes=int(stored.get("size", 0)),
            version=stored.get("versionId") or None,
            sequencer=stored.get("sequencer") or None,
            etag=stored.get("eTag") or None,
        )
        for record in event.get("Records", ())
        if record.get("eventName", "").removeprefix("s3:").startswith("ObjectCreated:")
        for stored in [record["s3"]["object"]]
    ]


def orders_in(event: Mapping[str, Any]) -> list[WorkOrder]:
    """The order that another function of ours has sent; none in a notification.

    >>> orders_in({"strata": {"session_id": "docs", "job_id": None}})
    [WorkOrder(session_id='docs', job_id=None)]
    """
    order = event.get("strata")
    return [] if order is None else [WorkOrder(session_id=order["session_id"], job_id=order.get("job_id"))]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedExecution:
    """An execution that did not succeed: its name, and how it ended."""

    name: str
    status: str


def execution_ended(event: Mapping[str, Any]) -> EndedExecution:
    """EventBridge's "Step Functions Execution Status Change"."""
    detail = event["detail"]
    return EndedExecution(name=detail["name"], status=detail["status"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """This call of the function: who it is, and how long it may still run."""

    owner: str
    remaining_s: Callable[[], float]


def invocation_of(context: Any) -> Invocation:
    """`owner` is new for every call: a redelivery comes with the request id of the first delivery."""
    return Invocation(
        owner=f"{context.aws_request_id}/{uuid.uuid4().hex}",
        remaining_s=lambda: context.get_remaining_time_in_millis() / 1000,
    )
