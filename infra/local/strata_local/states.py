"""Step Functions on this machine: moto runs the definition, its Lambda calls reach the real function processes.

moto's Lambda would need Docker; its `invoke` is replaced while the server runs. It publishes no event when an execution
ends; we do, to the functions whose rules match. moto's client for the calls of a definition knows its server by an
environment variable alone.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from moto.awslambda.models import LambdaBackend
from moto.core.config import default_user_config
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication

from strata_local.invocations import Buffered, Failed
from strata_local.stack import ACCOUNT, EXECUTION_ENDED, REGION, Stack

Invoke = Callable[[str, Mapping[str, Any]], None]
"""Takes a function's name and an event, and returns at once."""
Call = Callable[[str, bytes], Buffered | Failed]
"""Takes a function's name and an event, and returns its end."""

_PORT = "MOTO_PORT"
_ROLE = f"arn:aws:iam::{ACCOUNT}:role/local"
_REPLACED: tuple[tuple[type, str, list[str]], ...] = (
    (
        LambdaBackend,
        "invoke",
        ["self", "function_name", "qualifier", "body", "headers", "response_headers"],
    ),
    (BaseExecutionWorkerCommunication, "terminated", ["self"]),
)
for _class, _name, _parameters in _REPLACED:
    if list(inspect.signature(getattr(_class, _name)).parameters) != _parameters:
        raise ImportError(f"moto's {_class.__name__}.{_name} has changed: strata_local.states must be adapted to it.")


class LocalStates:
    """`start` before anything is called, `make` once the server answers, `stop` at the end."""

    def __init__(self, stack: Stack, *, invoke: Invoke, call: Call) -> None:
        self._stack = stack
        self._invoke = invoke
        self._call = call
        self._originals: dict[tuple[type, str], Any] = {}
        self._port_before: str | None = None
        self._executes_before = False

    def start(self, port: int) -> None:
        """Let moto's executions call our functions, and tell their ends; `port` is where moto's server listens."""
        self._port_before = os.environ.get(_PORT)
        os.environ[_PORT] = str(port)
        settings = default_user_config["stepfunctions"]
        self._executes_before = settings.get("execute_state_machine", False)
        settings["execute_state_machine"] = True
        self._originals = {(kind, name): getattr(kind, name) for kind, name, _ in _REPLACED}
        call, publish = self._call, self._publish
        reflect = self._originals[BaseExecutionWorkerCommunication, "terminated"]

        def invoke(
            _: Any, function_name: str, qualifier: str | None, body: Any, headers: Any, response_headers: Any
        ) -> bytes:
            del qualifier
            name = unquote(function_name).rsplit(":", 1)[-1]
            if headers.get("X-Amz-Invocation-Type") == "Event":
                self._invoke(name, json.loads(body or "{}"))
                response_headers["Content-Length"] = "0"
                return b""
            reply = call(name, body.encode() if isinstance(body, str) else body or b"{}")
            payload = reply.payload if isinstance(reply, Buffered) else _failure(reply)
            if isinstance(reply, Failed):
                response_headers["x-amz-function-error"] = "Unhandled"
            response_headers["Content-Length"] = str(len(payload))
            return payload

        def terminated(communication: Any) -> None:
            reflect(communication)
            publish(communication.execution)

        setattr(LambdaBackend, "invoke", invoke)  # noqa: B010 - a method of a class that is not ours
        setattr(BaseExecutionWorkerCommunication, "terminated", terminated)  # noqa: B010

    def make(self, client: Any) -> None:
        for machine in self._stack.state_machines:
            client.create_state_machine(name=machine.name, definition=machine.definition, roleArn=_ROLE)

    def stop(self) -> None:
        if not self._originals:
            return
        for (kind, name), original in self._originals.items():
            setattr(kind, name, original)
        self._originals.clear()
        default_user_config["stepfunctions"]["execute_state_machine"] = self._executes_before
        if self._port_before is None:
            os.environ.pop(_PORT, None)
        else:
            os.environ[_PORT] = self._port_before

    def _publish(self, execution: Any) -> None:
        machine, status = execution.state_machine.arn, execution.status
        event = {
            "version": "0",
            "id": str(uuid4()),
            "detail-type": EXECUTION_ENDED,
            "source": "aws.states",
            "account": ACCOUNT,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "region": REGION,
            "resources": [execution.exec_arn],
            "detail": {
                "executionArn": execution.exec_arn,
                "stateMachineArn": machine,
                "name": execution.name,
                "status": status,
                "input": json.dumps(execution.input_data),
                "error": execution.error,
                "cause": execution.cause,
            },
        }
        for function in self._stack.functions.values():
            for rule in function.execution_rules:
                if status in rule.statuses and machine in rule.state_machines:
                    self._invoke(function.name, event)


def _failure(failure: Failed) -> bytes:
    """A function's error as Lambda gives it to the caller."""
    return json.dumps({"errorMessage": failure.message, "errorType": failure.error_type}).encode()
