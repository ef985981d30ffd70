"""infra/template.yaml → what the local cloud starts.

The template stays the one list of functions, routes, transfer modes, environment and event sources. Every resource
type, property and intrinsic function that is not implemented here is refused by name: a stack that runs here and lacks
a part of the deployed one would be worse than none. What only a deployment can have (policies, encryption, retention)
is in the tables below by name, so that it is passed over on purpose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from strata_local.errors import UnsupportedTemplate

ACCOUNT = "123456789012"
REGION = "us-east-1"
STACK_NAME = "strata-local"

TASK_ROOT = "/var/task"
"""Where a deployed function's folder lies."""

DEFAULT_INTEGRATION_TIMEOUT_S = 29.0
STREAMING_INTEGRATION_TIMEOUT_S = 900.0

EXECUTION_ENDED = "Step Functions Execution Status Change"

_IGNORED = "passed over here"
_READ = "implemented"

_RESOURCE_ATTRIBUTES = {"Type", "Properties", "Metadata", "DeletionPolicy", "UpdateReplacePolicy", "DependsOn"}
_PROPERTIES: Mapping[str, Mapping[str, str]] = {
    "AWS::Serverless::LayerVersion": {
        "ContentUri": _READ,
        "Description": _IGNORED,
        "CompatibleRuntimes": _IGNORED,
        "RetentionPolicy": _IGNORED,
    },
    "AWS::Serverless::Api": {
        "StageName": _READ,
        "GatewayResponses": _READ,
        "EndpointConfiguration": _IGNORED,
    },
    "AWS::Serverless::Function": {
        "CodeUri": _READ,
        "Handler": _READ,
        "Timeout": _READ,
        "MemorySize": _READ,
        "Layers": _READ,
        "Environment": _READ,
        "Events": _READ,
        "EventInvokeConfig": _READ,
        "Runtime": _IGNORED,
        "Description": _IGNORED,
        "Policies": _IGNORED,
        "EphemeralStorage": _IGNORED,
    },
    "AWS::S3::Bucket": {
        "BucketName": _READ,
        "VersioningConfiguration": _READ,
        "BucketEncryption": _IGNORED,
        "OwnershipControls": _IGNORED,
        "PublicAccessBlockConfiguration": _IGNORED,
        "LifecycleConfiguration": _IGNORED,
    },
    "AWS::S3::BucketPolicy": {"Bucket": _IGNORED, "PolicyDocument": _IGNORED},
    "AWS::DynamoDB::Table": {
        "AttributeDefinitions": _READ,
        "KeySchema": _READ,
        "GlobalSecondaryIndexes": _READ,
        "TimeToLiveSpecification": _READ,
        "BillingMode": _READ,
        "PointInTimeRecoverySpecification": _IGNORED,
        "SSESpecification": _IGNORED,
    },
    "AWS::Serverless::StateMachine": {
        "Name": _READ,
        "DefinitionUri": _READ,
        "DefinitionSubstitutions": _READ,
        "Type": _IGNORED,
        "Policies": _IGNORED,
    },
    "AWS::SQS::Queue": {"MessageRetentionPeriod": _IGNORED, "SqsManagedSseEnabled": _IGNORED},
}
_EVENT_PROPERTIES: Mapping[str, set[str]] = {
    "Api": {"RestApiId", "Method", "Path", "ResponseTransferMode", "TimeoutInMillis"},
    "S3": {"Bucket", "Events", "Filter"},
    "EventBridgeRule": {"Pattern"},
    "ScheduleV2": {"ScheduleExpression", "RetryPolicy"},
}
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_SECONDS = {"minute": 60.0, "hour": 3_600.0, "day": 86_400.0}
_SECTIONS = {
    "AWSTemplateFormatVersion", "Transform", "Description", "Parameters", "Globals", "Resources", "Outputs", "Metadata",
}  # fmt: skip


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


# --- YAML with CloudFormation's tags ---------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """Reads `!Sub x` as `{"Fn::Sub": x}`, as CloudFormation does."""


def _intrinsic(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        if name == "Fn::GetAtt":
            value = str(value).split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]
    return {name: value}


_Loader.add_multi_constructor("!", _intrinsic)


def parameters_of(path: Path) -> dict[str, str | None]:
    """The template's parameters with their defaults; None where a value must be given."""
    return {
        name: None if (default := declared.get("Default")) is None else str(default)
        for name, declared in (_read(path).get("Parameters") or {}).items()
    }


def load_stack(path: Path, *, parameters: Mapping[str, str] | None = None) -> Stack:
    """Read the template as a deployment with these parameters would.

    Raises `UnsupportedTemplate`: the text names the resource and what is not implemented.
    """
    return _Template(path.resolve(), parameters or {}).stack()


def _read(path: Path) -> Mapping[str, Any]:
    # The loader is a SafeLoader: it builds nothing but plain values.
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506
    if not isinstance(content, Mapping):
        raise UnsupportedTemplate(f"{path.name} is no CloudFormation template.")
    return content


class _Template:
    def __init__(self, path: Path, parameters: Mapping[str, str]) -> None:
        self._path = path
        self._content = _read(path)
        self._refuse_unknown("the template", self._content, _SECTIONS)
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
        self._refuse_unknown("Globals.Function", shared, set(_PROPERTIES["AWS::Serverless::Function"]))
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
            known = _EVENT_PROPERTIES.get(event["Type"])
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
            if _PROPERTIES[resource["Type"]][key] == _READ
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
        self._refuse_unknown(name, resource, _RESOURCE_ATTRIBUTES)
        if kind not in _PROPERTIES:
            raise self._unsupported(f"resource {name} is of type {kind}")
        self._refuse_unknown(f"{name} ({kind})", resource.get("Properties") or {}, set(_PROPERTIES[kind]))

    def _refuse_unknown(self, where: str, content: Mapping[str, Any], known: set[str]) -> None:
        if unknown := sorted(set(content) - known):
            raise self._unsupported(f"{where} has {', '.join(unknown)}")

    def _unsupported(self, fact: str) -> UnsupportedTemplate:
        return UnsupportedTemplate(f"{self._path.name}: {fact}; the local cloud does not implement that.")


def json_error(code: str, message: str) -> bytes:
    """The error shape that every part of the API answers with."""
    return json.dumps({"error": {"code": code, "message": message}}).encode("utf-8")
