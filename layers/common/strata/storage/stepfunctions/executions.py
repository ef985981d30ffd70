"""`Executions` in Step Functions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from strata.model.jobs import Job
from strata.ports.workers import ExecutionState
from strata.storage.aws import aws_errors

STORE = "Step Functions"
_STATES = {"RUNNING": ExecutionState.RUNNING, "SUCCEEDED": ExecutionState.SUCCEEDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFunctionsExecutions:
    """`state_machine` is its ARN. A name is taken for 90 days, so one job never has two executions."""

    client: Any
    state_machine: str

    def start(self, job: Job) -> ExecutionState:
        started = json.dumps({"job_id": job.job_id, "session_id": job.session_id}, sort_keys=True)
        try:
            with aws_errors(STORE):
                self.client.start_execution(stateMachineArn=self.state_machine, name=job.job_id, input=started)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
                raise
            return self._state(job.job_id)
        return ExecutionState.RUNNING

    def _state(self, name: str) -> ExecutionState:
        execution = f"{self.state_machine.replace(':stateMachine:', ':execution:')}:{name}"
        with aws_errors(STORE):
            status = self.client.describe_execution(executionArn=execution)["status"]
        return _STATES.get(status, ExecutionState.FAILED)
