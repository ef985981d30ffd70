"""infra/events: what `sam local invoke` and a person at the console start from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import pytest

from strata.edge.streaming.requests import request_of
from strata_local.rest_events import match_route
from strata_local.template import load_stack

ROOT = Path(__file__).parents[3]
EVENTS = sorted((ROOT / "infra" / "events").glob("*.json"))
STACK = load_stack(ROOT / "infra" / "template.yaml", parameters={"IndexDatabaseUrl": "a", "QueryDatabaseUrl": "b"})


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.stem)
def test_every_sample_event_is_one_that_the_template_sends(path: Path) -> None:
    event: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if "Records" in event:
        described = event["Records"][0]["s3"]["object"]
        prefixes = [trigger.prefix for each in STACK.functions.values() for trigger in each.triggers]
        assert any(unquote_plus(described["key"]).startswith(prefix) for prefix in prefixes)
        assert described["versionId"]
        assert described["sequencer"]
    elif event.get("source") == "aws.scheduler":
        assert any(each.every_s for each in STACK.functions.values())
    elif "detail" in event:
        rules = [rule for each in STACK.functions.values() for rule in each.execution_rules]
        assert any(event["detail"]["status"] in rule.statuses for rule in rules)
        assert any(event["detail"]["stateMachineArn"] in rule.state_machines for rule in rules)
    elif "job_id" in event:
        assert event.keys() == {"job_id", "session_id", "batch_key", "index_id", "error"}  # all that any state is given
    else:
        scope, _ = request_of(event)
        matched = match_route(STACK.routes, scope["method"], event["path"])
        assert matched is not None
        assert (matched[0].path, matched[1] or None) == (event["resource"], event["pathParameters"])


def test_every_function_has_a_sample_event() -> None:
    functions = set()
    for path in EVENTS:
        event = json.loads(path.read_text(encoding="utf-8"))
        if "Records" in event:
            key = event["Records"][0]["s3"]["object"]["key"]
            functions |= {
                name
                for name, each in STACK.functions.items()
                for trigger in each.triggers
                if key.startswith(trigger.prefix)
            }
        elif event.get("source") == "aws.scheduler":
            functions |= {name for name, each in STACK.functions.items() if each.every_s}
        elif "detail" in event:
            functions |= {name for name, each in STACK.functions.items() if each.execution_rules}
        elif "job_id" in event:
            definitions = "".join(machine.definition for machine in STACK.state_machines)
            functions |= {name for name, each in STACK.functions.items() if f'"{each.arn}"' in definitions}
        else:
            matched = match_route(STACK.routes, event["httpMethod"], event["path"])
            assert matched is not None
            functions.add(matched[0].function)
    assert functions == set(STACK.functions)
