"""HTTP ↔ API Gateway's REST events (proxy integration, payload version 1.0). Pure."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote

from strata_local.stack import ACCOUNT, Route

API_ID = "local"


class MalformedReply(Exception):
    """The function's reply is no proxy reply: API Gateway answers 502."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request as the front received it. `raw_path` is percent-encoded; header names are lower-case."""

    method: str
    raw_path: str
    query_string: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    source_ip: str
    scheme: str = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def match_route(routes: Iterable[Route], method: str, raw_path: str) -> tuple[Route, dict[str, str]] | None:
    """The route that serves a request, and its decoded path parameters; a literal path wins over a parameter."""
    for route in sorted(routes, key=lambda route: route.path.count("{")):
        if route.method == method and (found := route.pattern.fullmatch(raw_path)):
            return route, {name: unquote(value) for name, value in found.groupdict().items()}
    return None


def event_of(
    request: HttpRequest,
    route: Route,
    *,
    path_parameters: Mapping[str, str],
    claims: Mapping[str, str],
    request_id: str,
    stage: str,
    now: float | None = None,
) -> dict[str, Any]:
    """What API Gateway would hand to the function."""
    moment = time.time() if now is None else now
    headers = _grouped(
        [*request.headers, ("x-forwarded-for", request.source_ip), ("x-forwarded-proto", request.scheme)]
    )
    query = _grouped(parse_qsl(request.query_string, keep_blank_values=True))
    host = headers.get("host", ["localhost"])[-1]
    try:
        body, is_base64 = request.body.decode("utf-8"), False
    except UnicodeDecodeError:
        body, is_base64 = base64.b64encode(request.body).decode("ascii"), True
    return {
        "resource": route.path,
        "path": request.raw_path,
        "httpMethod": request.method,
        "headers": _last(headers),
        "multiValueHeaders": headers,
        "queryStringParameters": _last(query) or None,
        "multiValueQueryStringParameters": query or None,
        "pathParameters": dict(path_parameters) or None,
        "stageVariables": None,
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": API_ID,
            "authorizer": {**claims, "principalId": claims.get("sub", ""), "integrationLatency": 0},
            "domainName": host.partition(":")[0],
            "domainPrefix": API_ID,
            "extendedRequestId": request_id,
            "httpMethod": request.method,
            "identity": {
                "accessKey": None,
                "accountId": None,
                "caller": None,
                "sourceIp": request.source_ip,
                "user": None,
                "userAgent": headers.get("user-agent", [None])[-1],
                "userArn": None,
            },
            "path": f"/{stage}{request.raw_path}",
            "protocol": "HTTP/1.1",
            "requestId": request_id,
            "requestTime": datetime.fromtimestamp(moment, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "requestTimeEpoch": int(moment * 1000),
            "resourceId": API_ID,
            "resourcePath": route.path,
            "stage": stage,
        },
        "body": body or None,
        "isBase64Encoded": is_base64,
    }


def reply_of(payload: bytes) -> HttpReply:
    """A buffered function's reply as HTTP. Raises `MalformedReply`."""
    try:
        content = json.loads(payload)
        status, body = content["statusCode"], content.get("body")
        single, multiple = content.get("headers") or {}, content.get("multiValueHeaders") or {}
        headers = [(name, _header(value)) for name, value in single.items() if name not in multiple]
        headers += [(name, _header(value)) for name, values in multiple.items() for value in values]
        if not isinstance(body, str | None):
            raise TypeError(f"body is {type(body).__name__}")
        raw = base64.b64decode(body or "", validate=True) if content.get("isBase64Encoded") else (body or "").encode()
        if isinstance(status, bool) or not 100 <= int(status) <= 599:
            raise ValueError(f"statusCode is {status!r}")
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise MalformedReply(f"{type(error).__name__}: {error}") from error
    return HttpReply(status=int(status), headers=tuple(headers), body=raw)


def _header(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError(f"a header's value is {type(value).__name__}")


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, value in pairs:
        grouped.setdefault(name, []).append(value)
    return grouped


def _last(grouped: Mapping[str, list[str]]) -> dict[str, str]:
    return {name: values[-1] for name, values in grouped.items()}
