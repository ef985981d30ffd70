"""Who is asked to do the work: a worker (Lambda), or a run of the state machine (Step Functions)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from strata.model.jobs import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """A session to be drained; `job_id` is accepted before: its content is in S3, but no notification told of it."""

    session_id: str
    job_id: str | None = None


class WorkerCalls(Protocol):
    """Asks for a worker without waiting for it."""

    def send(self, order: WorkOrder) -> None:
        """A worker comes soon. Raises `StoreUnavailable`; the sweep then asks again."""
        ...


class ExecutionState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Executions(Protocol):
    """Runs of the state machine for large snapshots (Step Functions), named by their job."""

    def start(self, job: Job) -> ExecutionState:
        """Start the job's execution, once: one that was started before is looked at instead."""
        ...
