"""The definition of the re-indexing state machine: what AWS and moto both take, and names that exist."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strata import errors
from strata_local.errors import UnsupportedTemplate
from strata_local.stack import ACCOUNT, STACK_NAME, Stack
from strata_local.template import load_stack, parameters_of
from strata_local.up import DEFAULT_TEMPLATE

DEFINITION = DEFAULT_TEMPLATE.parent / "statemachine" / "reindex.asl.json"
FOREIGN = ("States.", "Lambda.", "Runtime.", "Sandbox.")
BUILTIN = {"TimeoutError", "ConnectionError", "OSError"}


@pytest.fixture(scope="module")
def stack() -> Stack:
    return load_stack(DEFAULT_TEMPLATE, parameters=dict.fromkeys(parameters_of(DEFAULT_TEMPLATE), "x"))


def all_states(definition: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, state in definition["States"].items():
        yield name, state
        if "ItemProcessor" in state:
            yield from all_states(state["ItemProcessor"])


STATES = dict(all_states(json.loads(DEFINITION.read_text("utf-8"))))


def test_every_error_that_is_retried_is_one_that_can_come() -> None:
    named = {name for state in STATES.values() for retry in state.get("Retry", ()) for name in retry["ErrorEquals"]}
    ours = {name for name in named if not name.startswith(FOREIGN)} - BUILTIN
    assert all(issubclass(getattr(errors, name), errors.StrataError) for name in ours)
    temporary = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.TemporaryError)
    }
    asked_by_questions_alone = {"RerankerUnavailable", "DeadlineExceeded"}
    assert temporary - asked_by_questions_alone <= ours
    assert ours - temporary == {"LockLost"}


@pytest.mark.parametrize("name", sorted(name for name, state in STATES.items() if state["Type"] == "Task"))
def test_every_task_has_a_time_limit_and_is_tried_again(name: str) -> None:
    assert STATES[name]["TimeoutSeconds"] > 0
    assert STATES[name]["Retry"]


def test_the_map_is_written_so_that_aws_and_moto_both_take_it() -> None:
    (chosen,) = [state for state in STATES.values() if state["Type"] == "Map"]
    assert chosen["ItemProcessor"]["ProcessorConfig"] == {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}
    assert "ItemBatcher" not in chosen
    assert isinstance(chosen["ToleratedFailurePercentage"], float)
    assert "QueryLanguage" not in DEFINITION.read_text("utf-8")


def test_every_task_names_a_function_of_the_template(stack: Stack) -> None:
    (machine,) = stack.state_machines
    assert machine.name == f"{STACK_NAME}-reindex"
    resources = {
        state["Resource"] for _, state in all_states(json.loads(machine.definition)) if state["Type"] == "Task"
    }
    assert resources <= {function.arn for function in stack.functions.values()}
    assert len(resources) == 6


def test_an_execution_that_fails_reaches_a_function_and_workers_may_start_one(stack: Stack) -> None:
    arn = f"arn:aws:states:us-east-1:{ACCOUNT}:stateMachine:{STACK_NAME}-reindex"
    (ended,) = [function for function in stack.functions.values() if function.execution_rules]
    assert ended.handler == "app.on_execution_ended"
    (rule,) = ended.execution_rules
    assert (set(rule.statuses), rule.state_machines) == ({"FAILED", "TIMED_OUT", "ABORTED"}, (arn,))
    for function in stack.functions.values():
        assert function.environment["STRATA_REINDEX_STATE_MACHINE"] == arn


def test_a_definition_with_a_hole_is_refused(tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_text('{"Resource": "${Missing}"}')
    template = tmp_path / "template.yaml"
    template.write_text(
        "Resources:\n"
        "  Api: {Type: AWS::Serverless::Api, Properties: {StageName: v1}}\n"
        "  Machine: {Type: AWS::Serverless::StateMachine, Properties: {DefinitionUri: machine.json}}\n"
    )
    with pytest.raises(UnsupportedTemplate, match=r"Machine has no substitution for \$\{Missing\}"):
        load_stack(template)


def test_a_rule_about_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    template = tmp_path / "template.yaml"
    template.write_text(
        "Resources:\n"
        "  Api: {Type: AWS::Serverless::Api, Properties: {StageName: v1}}\n"
        "  Worker:\n"
        "    Type: AWS::Serverless::Function\n"
        "    Properties:\n"
        "      CodeUri: code\n"
        "      Handler: app.f\n"
        "      Events:\n"
        "        Ended: {Type: EventBridgeRule, Properties: {Pattern: {source: [aws.s3], detail-type: [x]}}}\n"
    )
    with pytest.raises(UnsupportedTemplate, match="is about"):
        load_stack(template)
