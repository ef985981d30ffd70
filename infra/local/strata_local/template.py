"""infra/template.yaml → what the local cloud starts.

The template stays the one list of functions, routes, transfer modes, environment and event sources. Every resource
type, property and intrinsic function that is not implemented here is refused by name: a stack that runs here and lacks
a part of the deployed one would be worse than none. What only a deployment can have (policies, encryption, retention)
is in the tables of `supported` by name, so that it is passed over on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from strata_local.cloudformation import read_template
from strata_local.errors import UnsupportedTemplate
from strata_local.stack import (
    ACCOUNT,
    EXECUTION_ENDED,
    REGION,
    STACK_NAME,
    Bucket,
    ExecutionRule,
    Function,
    GatewayReply,
    Route,
    Stack,
    StateMachine,
    Table,
    Trigger,
)
from strata_local.supported import EVENT_PROPERTIES, PROPERTIES, READ, RESOURCE_ATTRIBUTES, SECTIONS

DEFAULT_INTEGRATION_TIMEOUT_S = 29.0
STREAMING_INTEGRATION_TIMEOUT_S = 900.0
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_SECONDS = {"minute": 60.0, "hour": 3_600.0, "day": 86_400.0}


def parameters_of(path: Path) -> dict[str, str | None]:
    """The template's parameters with their defaults; None where a value must be given."""
    return {
        name: None if (default := declared.get("Default")) is None else str(default)
        for name, declared in (read_template(path).get("Parameters") or {}).items()
    }


def load_stack(path: Path, *, parameters: Mapping[str, str] | None = None) -> Stack:
    """Read the template as a deployment with these parameters would.

    Raises `UnsupportedTemplate`: the text names the resource and what is not implemented.
    """
    return _Template(path.resolve(), parameters or {}).stack()


class _Template:
    def __init__(self, path: Path, parameters: Mapping[str, str]) -> None:
        self._path = path
        self._content = read_template(path)
        self._refuse_unknown("the template", self._content, SECTIONS)
        self._resources: Mapping[str, Mapping[str, Any]] = self._content.get("Resources") or {}
        self._parameters = self._parameter_values(parameters)
        for name, resource in self._resources.items():
            self._check(name, resource)

    def stack(self) -> Stack:
        functions = {name: self._function(name) for name in self._of_type("AWS::Serverless::Function")}
        apis = self._of_type("AWS::Serverless::Api")
        if len(apis) != 1:
            raise self._unsupported(f"the template has {len(apis)} APIs; the local cloud serves exactly one")
        api = self._properties(apis[0])
        routes = tuple(route for name in functions for route in self._routes(name))
        seen: set[tuple[str, str]] = set()
        for route in routes:
            if (route.method, route.path) in seen:
                raise self._unsupported(f"{route.method} {route.path} has two functions")
            seen.add((route.method, route.path))
        return Stack(
            functions=functions,
            routes=routes,
            buckets=tuple(self._bucket(name) for name in self._of_type("AWS::S3::Bucket")),
            tables=tuple(self._table(name) for name in self._of_type("AWS::DynamoDB::Table")),
            state_machines=tuple(self._state_machine(name) for name in self._of_type("AWS::Serverless::StateMachine")),
            stage=str(api.get("StageName", "Prod")),
            gateway_replies={
                kind: GatewayReply(
                    status=int(reply["StatusCode"]), body=reply["ResponseTemplates"]["application/json"].encode("utf-8")
                )
                for kind, reply in (api.get("GatewayResponses") or {}).items()
            },
        )

    # --- resources ---

    def _function(self, name: str) -> Function:
        own = self._properties(name)
        shared = self._resolve((self._content.get("Globals") or {}).get("Function") or {}, "Globals.Function")
        self._refuse_unknown("Globals.Function", shared, set(PROPERTIES["AWS::Serverless::Function"]))
        both = {**shared, **own}
        environment = {**self._variables(shared, "Globals"), **self._variables(own, name)}
        layers = [*(shared.get("Layers") or []), *(own.get("Layers") or [])]
        invoke = both.get("EventInvokeConfig") or {}
        self._refuse_unknown(
            f"{name}.EventInvokeConfig",
            invoke,
            {"MaximumRetryAttempts", "MaximumEventAgeInSeconds", "DestinationConfig"},
        )
        return Function(
            name=name,
            folder=self._folder(str(both["CodeUri"])),
            handler=str(both["Handler"]),
            timeout_s=float(both.get("Timeout", 3)),
            memory_mb=int(both.get("MemorySize", 128)),
            layers=tuple(self._folder(str(self._properties(layer)["ContentUri"])) for layer in layers),
            environment=environment,
            triggers=tuple(
                self._trigger(f"{name}.{event}", properties) for event, properties in self._events(name, "S3")
            ),
            execution_rules=tuple(
                self._execution_rule(f"{name}.{event}", properties)
                for event, properties in self._events(name, "EventBridgeRule")
            ),
            every_s=tuple(
                self._period(f"{name}.{event}", properties) for event, properties in self._events(name, "ScheduleV2")
            ),
            retries=int(invoke.get("MaximumRetryAttempts", 2)),
        )

    def _variables(self, properties: Mapping[str, Any], where: str) -> dict[str, str]:
        environment = properties.get("Environment") or {}
        self._refuse_unknown(f"{where}.Environment", environment, {"Variables"})
        return {name: str(value) for name, value in (environment.get("Variables") or {}).items()}

    def _events(self, function: str, kind: str) -> list[tuple[str, Mapping[str, Any]]]:
        events = []
        for name, event in (self._properties(function).get("Events") or {}).items():
            known = EVENT_PROPERTIES.get(event["Type"])
            if known is None:
                raise self._unsupported(f"event {function}.{name} is of type {event['Type']}")
            self._refuse_unknown(f"event {function}.{name}", event["Properties"], known)
            if event["Type"] == kind:
                events.append((name, event["Properties"]))
        return events

    def _routes(self, function: str) -> list[Route]:
        routes = []
        for name, event in self._events(function, "Api"):
            mode = event.get("ResponseTransferMode", "BUFFERED")
            if mode not in ("BUFFERED", "RESPONSE_STREAM"):
                raise self._unsupported(f"event {function}.{name} has the transfer mode {mode!r}")
            streaming = mode == "RESPONSE_STREAM"
            default_s = STREAMING_INTEGRATION_TIMEOUT_S if streaming else DEFAULT_INTEGRATION_TIMEOUT_S
            milliseconds = event.get("TimeoutInMillis")
            if not re.fullmatch(r"(/[A-Za-z0-9._-]+|/\{[A-Za-z0-9_]+\})+", event["Path"]):
                raise self._unsupported(f"event {function}.{name} has the path {event['Path']!r}")
            routes.append(
                Route(
                    method=str(event["Method"]).upper(),
                    path=event["Path"],
                    function=function,
                    streaming=streaming,
                    timeout_s=default_s if milliseconds is None else float(milliseconds) / 1000,
                )
            )
        return routes

    def _trigger(self, where: str, event: Mapping[str, Any]) -> Trigger:
        events = event["Events"]
        rules = {
            rule["Name"].lower(): rule["Value"]
            for rule in ((event.get("Filter") or {}).get("S3Key") or {}).get("Rules") or []
        }
        self._refuse_unknown(f"event {where}.Filter", rules, {"prefix", "suffix"})
        return Trigger(
            bucket=event["Bucket"],
            events=(events,) if isinstance(events, str) else tuple(events),
            prefix=rules.get("prefix", ""),
            suffix=rules.get("suffix", ""),
        )

    def _execution_rule(self, where: str, event: Mapping[str, Any]) -> ExecutionRule:
        pattern = event["Pattern"]
        detail = pattern.get("detail") or {}
        self._refuse_unknown(f"event {where}.Pattern", pattern, {"source", "detail-type", "detail"})
        self._refuse_unknown(f"event {where}.Pattern.detail", detail, {"status", "stateMachineArn"})
        said = (pattern.get("source"), pattern.get("detail-type"))
        if said != (["aws.states"], [EXECUTION_ENDED]):
            raise self._unsupported(f"event {where} is about {said}")
        return ExecutionRule(statuses=tuple(detail["status"]), state_machines=tuple(detail["stateMachineArn"]))

    def _state_machine(self, name: str) -> StateMachine:
        properties = self._properties(name)
        path = self._path.parent / str(properties["DefinitionUri"])
        if not path.is_file():
            raise self._unsupported(f"the file {properties['DefinitionUri']} does not exist")
        definition = path.read_text(encoding="utf-8")
        for key, value in (properties.get("DefinitionSubstitutions") or {}).items():
            definition = definition.replace(f"${{{key}}}", str(value))
        if left := re.search(r"\$\{\w+\}", definition):
            raise self._unsupported(f"{name} has no substitution for {left[0]}")
        return StateMachine(name=self._name_of(name), definition=definition)

    def _period(self, where: str, event: Mapping[str, Any]) -> float:
        found = _RATE.fullmatch(str(event["ScheduleExpression"]))
        if found is None:
            raise self._unsupported(f"event {where} has the schedule {event['ScheduleExpression']!r}")
        return int(found[1]) * _SECONDS[found[2]]

    def _bucket(self, name: str) -> Bucket:
        versioning = self._properties(name).get("VersioningConfiguration") or {}
        return Bucket(name=self._name_of(name), versioned=versioning.get("Status") == "Enabled")

    def _table(self, name: str) -> Table:
        properties = dict(self._properties(name))
        ttl = properties.pop("TimeToLiveSpecification", {})
        for passed_over in ("PointInTimeRecoverySpecification", "SSESpecification"):
            properties.pop(passed_over, None)
        return Table(
            name=self._name_of(name),
            definition={"TableName": self._name_of(name), **properties},
            ttl_attribute=ttl.get("AttributeName") if ttl.get("Enabled") else None,
        )

    def _folder(self, uri: str) -> Path:
        folder = (self._path.parent / uri).resolve()
        if not folder.is_dir():
            raise self._unsupported(f"the folder {uri} does not exist")
        return folder

    # --- names and intrinsic functions ---

    def _parameter_values(self, given: Mapping[str, str]) -> dict[str, str]:
        declared = self._content.get("Parameters") or {}
        if unknown := sorted(set(given) - set(declared)):
            raise self._unsupported(f"there is no parameter {', '.join(unknown)}")
        values = {}
        for name, parameter in declared.items():
            if name not in given and "Default" not in parameter:
                raise self._unsupported(f"parameter {name} has no value")
            values[name] = str(given.get(name, parameter.get("Default")))
        return values

    def _of_type(self, kind: str) -> list[str]:
        return [name for name, resource in self._resources.items() if resource["Type"] == kind]

    def _properties(self, name: str) -> Mapping[str, Any]:
        resource = self._resources[name]
        read = {
            key: value
            for key, value in (resource.get("Properties") or {}).items()
            if PROPERTIES[resource["Type"]][key] == READ
        }
        resolved: Mapping[str, Any] = self._resolve(read, name)
        return resolved

    def _name_of(self, name: str) -> str:
        """The physical name: what `Ref` gives."""
        resource = self._resources[name]
        match resource["Type"]:
            case "AWS::S3::Bucket":
                given = (resource.get("Properties") or {}).get("BucketName")
                return str(self._resolve(given, name)) if given else f"{STACK_NAME}-{name.lower()}"
            case "AWS::DynamoDB::Table":
                return f"{STACK_NAME}-{name}"
            case "AWS::Serverless::StateMachine":
                return str(self._resolve((resource.get("Properties") or {}).get("Name", f"{STACK_NAME}-{name}"), name))
            case _:
                return name

    def _arn_of(self, name: str) -> str:
        match self._resources[name]["Type"]:
            case "AWS::S3::Bucket":
                return f"arn:aws:s3:::{self._name_of(name)}"
            case "AWS::DynamoDB::Table":
                return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{self._name_of(name)}"
            case "AWS::SQS::Queue":
                return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{STACK_NAME}-{name}"
            case "AWS::Serverless::Function":
                return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"
            case kind:
                raise self._unsupported(f"the ARN of {name} ({kind})")

    def _ref(self, name: str, where: str) -> str:
        pseudo = {
            "AWS::AccountId": ACCOUNT,
            "AWS::Region": REGION,
            "AWS::StackName": STACK_NAME,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
        }
        if name in pseudo:
            return pseudo[name]
        if name in self._parameters:
            return self._parameters[name]
        if name in self._resources:
            return self._name_of(name)
        raise self._unsupported(f"{where} refers to {name}, which is not in the template")

    def _get_att(self, target: list[str], where: str) -> str:
        name, attribute = target
        if attribute != "Arn" or name not in self._resources:
            raise self._unsupported(f"{where} uses the attribute {'.'.join(target)}")
        return self._arn_of(name)

    def _sub(self, value: Any, where: str) -> str:
        text, given = (value[0], self._resolve(value[1], where)) if isinstance(value, list) else (value, {})

        def replaced(found: re.Match[str]) -> str:
            name = found[1]
            if name.startswith("!"):
                return f"${{{name[1:]}}}"
            if name in given:
                return str(given[name])
            return self._get_att(name.split(".", 1), where) if "." in name else self._ref(name, where)

        return re.sub(r"\$\{([^}]+)\}", replaced, text)

    def _resolve(self, value: Any, where: str) -> Any:
        if isinstance(value, list):
            return [self._resolve(item, where) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((key, argument),) = value.items()
            functions: dict[str, Callable[[], Any]] = {
                "Ref": lambda: self._ref(argument, where),
                "Fn::Sub": lambda: self._sub(argument, where),
                "Fn::GetAtt": lambda: self._get_att(argument, where),
                "Fn::Join": lambda: str(argument[0]).join(str(self._resolve(part, where)) for part in argument[1]),
            }
            if key in functions:
                return functions[key]()
            if str(key).startswith("Fn::") or key == "Condition":
                raise self._unsupported(f"{where} uses {key}")
        return {key: self._resolve(item, f"{where}.{key}") for key, item in value.items()}

    # --- refusals ---

    def _check(self, name: str, resource: Mapping[str, Any]) -> None:
        kind = str(resource.get("Type"))
        self._refuse_unknown(name, resource, RESOURCE_ATTRIBUTES)
        if kind not in PROPERTIES:
            raise self._unsupported(f"resource {name} is of type {kind}")
        self._refuse_unknown(f"{name} ({kind})", resource.get("Properties") or {}, set(PROPERTIES[kind]))

    def _refuse_unknown(self, where: str, content: Mapping[str, Any], known: set[str]) -> None:
        if unknown := sorted(set(content) - known):
            raise self._unsupported(f"{where} has {', '.join(unknown)}")

    def _unsupported(self, fact: str) -> UnsupportedTemplate:
        return UnsupportedTemplate(f"{self._path.name}: {fact}; the local cloud does not implement that.")
