"""`WorkerCalls` by Lambda's asynchronous invocation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from strata.ports.workers import WorkOrder
from strata.storage.aws import aws_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaWorkerCalls:
    """`function` works on any session, whatever its jobs are; `strata.edge.notifications.orders_in` reads the event."""

    client: Any
    function: str

    def send(self, order: WorkOrder) -> None:
        event = {"strata": {"session_id": order.session_id, "job_id": order.job_id}}
        with aws_errors("Lambda"):
            self.client.invoke(
                FunctionName=self.function, InvocationType="Event", Payload=json.dumps(event).encode("utf-8")
            )
