"""What the local cloud starts: the template's functions, routes, buckets, tables and state machines, resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ACCOUNT = "123456789012"
REGION = "us-east-1"
STACK_NAME = "strata-local"

TASK_ROOT = "/var/task"
"""Where a deployed function's folder lies."""

EXECUTION_ENDED = "Step Functions Execution Status Change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method and path of the API. `streaming`: its integration passes a reply on as it comes."""

    method: str
    path: str
    function: str
    streaming: bool
    timeout_s: float

    @property
    def pattern(self) -> re.Pattern[str]:
        parts = re.split(r"\{([A-Za-z0-9_]+)\}", self.path)
        return re.compile(
            "".join(f"(?P<{part}>[^/]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """S3 events that invoke a function."""

    bucket: str
    events: tuple[str, ...]
    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRule:
    """Executions of a state machine (its ARN) that end so invoke a function."""

    statuses: tuple[str, ...]
    state_machines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMachine:
    """`definition` has its substitutions made."""

    name: str
    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function as it is started: `folder` is its own code, `layers` are folders that it can import from."""

    name: str
    folder: Path
    handler: str
    timeout_s: float
    memory_mb: int
    layers: tuple[Path, ...]
    environment: Mapping[str, str]
    triggers: tuple[Trigger, ...] = ()
    execution_rules: tuple[ExecutionRule, ...] = ()
    every_s: tuple[float, ...] = ()
    """Its schedules: each a period."""
    retries: int = 2

    @property
    def arn(self) -> str:
        return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.name}"

    @property
    def wrapper(self) -> Path | None:
        """The file in the function's folder that replaces the runtime client: it answers in the streaming form."""
        wrapper = self.environment.get("AWS_LAMBDA_EXEC_WRAPPER")
        return self.folder / wrapper.removeprefix(f"{TASK_ROOT}/") if wrapper else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    name: str
    versioned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`definition` is what DynamoDB's CreateTable takes."""

    name: str
    definition: Mapping[str, Any]
    ttl_attribute: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReply:
    """What the API itself answers, without a function."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """What the template says, resolved for this machine."""

    functions: Mapping[str, Function]
    routes: tuple[Route, ...]
    buckets: tuple[Bucket, ...]
    tables: tuple[Table, ...]
    stage: str
    state_machines: tuple[StateMachine, ...] = ()
    gateway_replies: Mapping[str, GatewayReply] = field(default_factory=dict)
