"""Lambda events as AWS sends them, and what calls a buffered handler with one."""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote_plus

FUNCTIONS = Path(__file__).parents[2] / "functions"
ANN = {"sub": "ann", "tenant": "acme", "groups": "", "scopes": "internal"}


@dataclass(frozen=True)
class LambdaContext:
    aws_request_id: str = "11111111-2222-3333-4444-555555555555"
    log_stream_name: str = "2026/11/30/[$LATEST]0123456789abcdef"
    function_name: str = "function"
    remaining_ms: int = 900_000

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms


def load_function(folder: str) -> ModuleType:
    """`functions/<folder>/app.py` under a name of its own, fresh."""
    spec = importlib.util.spec_from_file_location(f"functions_{folder}_app", FUNCTIONS / folder / "app.py")
    if spec is None or spec.loader is None:
        raise LookupError(folder)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rest_event(
    method: str,
    path: str,
    *,
    body: object = None,
    claims: Mapping[str, Any] | None = ANN,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A REST API (v1) proxy event. `body`: bytes travel in base64, text as it is, anything else as JSON."""
    sent: str | None
    if isinstance(body, bytes):
        sent = base64.b64encode(body).decode()
    else:
        sent = body if isinstance(body, str) or body is None else json.dumps(body)
    all_headers = {"Host": "api.test", "X-Forwarded-Proto": "https", **(headers or {})}
    if body is not None:
        all_headers.setdefault("Content-Type", "application/json")
    context: dict[str, Any] = {
        "resourcePath": path,
        "httpMethod": method,
        "path": f"/v1{path}",
        "stage": "v1",
        "requestId": "99999999-aaaa-bbbb-cccc-dddddddddddd",
        "identity": {"sourceIp": "203.0.113.7", "userAgent": "test"},
    }
    if claims is not None:
        context["authorizer"] = dict(claims)
    return {
        "resource": path,
        "path": path,
        "httpMethod": method,
        "headers": all_headers,
        "multiValueHeaders": {name: [value] for name, value in all_headers.items()},
        "queryStringParameters": dict(query) if query else None,
        "multiValueQueryStringParameters": {name: [value] for name, value in query.items()} if query else None,
        "pathParameters": None,
        "stageVariables": None,
        "requestContext": context,
        "body": sent,
        "isBase64Encoded": isinstance(body, bytes),
    }


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error_code(self) -> str:
        """The code of an error's body, which has a sentence too and nothing else."""
        (name,) = self.json
        error = self.json[name]
        assert name == "error"
        assert set(error) == {"code", "message"}
        assert error["message"]
        return str(error["code"])


def call(handler: Callable[[dict[str, Any], Any], dict[str, Any]], event: dict[str, Any]) -> Reply:
    answer = handler(event, LambdaContext())
    assert not answer["isBase64Encoded"]
    headers = {name.lower(): value for name, value in answer["headers"].items()}
    headers |= {name.lower(): values[-1] for name, values in answer.get("multiValueHeaders", {}).items()}
    return Reply(status=answer["statusCode"], headers=headers, body=answer["body"])


def s3_event(
    key: str, *, size: int = 3, version: str | None = "v1", name: str = "ObjectCreated:Post"
) -> dict[str, Any]:
    """An S3 notification; the key is encoded as S3 does it."""
    stored: dict[str, Any] = {
        "key": quote_plus(key, safe="/"),
        "size": size,
        "eTag": "d41d8cd98f00b204e9800998ecf8427e",
        "sequencer": "0055AED6DCD90281E5",
    }
    if version is not None:
        stored["versionId"] = version
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "eu-west-1",
        "eventTime": "2026-11-30T12:00:00.000Z",
        "eventName": name,
        "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": "bucket"}, "object": stored},
    }
    return {"Records": [record]}
