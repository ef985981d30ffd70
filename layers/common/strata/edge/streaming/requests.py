"""An event of API Gateway or of a function URL → an ASGI request."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from strata.edge.streaming.asgi import Scope


class InvalidEvent(Exception):
    """The event is no HTTP request of API Gateway (REST or HTTP API) or of a function URL."""


def request_of(event: Mapping[str, Any]) -> tuple[Scope, bytes]:
    """The ASGI scope and the body of an API Gateway event, payload version 1.0 (REST) or 2.0 (HTTP API, function URL).

    Raises `InvalidEvent`.
    """
    try:
        return _scope_of(event), _body(event)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidEvent(f"The event is no HTTP request: {type(error).__name__}: {error}.") from error


def _scope_of(event: Mapping[str, Any]) -> Scope:
    context = event["requestContext"]
    if event.get("version") == "2.0":
        request = context["http"]
        method, raw_path, query = request["method"], event["rawPath"], str(event.get("rawQueryString") or "")
        source_ip = request.get("sourceIp")
        headers = list((event.get("headers") or {}).items())
        if event.get("cookies"):
            headers.append(("cookie", "; ".join(event["cookies"])))
    else:
        method, raw_path = event["httpMethod"], event["path"]
        source_ip = (context.get("identity") or {}).get("sourceIp")
        query = urlencode(_pairs(event, "multiValueQueryStringParameters", "queryStringParameters"))
        headers = _pairs(event, "multiValueHeaders", "headers")
    encoded = [(str(name).lower().encode("latin-1"), str(value).encode("utf-8")) for name, value in headers]
    by_name = {name: value.decode("utf-8") for name, value in encoded}
    host = urlsplit(f"//{by_name.get(b'host', '')}")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method.upper(),
        "scheme": by_name.get(b"x-forwarded-proto", "https"),
        "path": unquote(raw_path) or "/",
        "raw_path": (raw_path or "/").encode("utf-8"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": encoded,
        "client": (source_ip, 0) if source_ip else None,
        "server": (host.hostname or "localhost", host.port or int(by_name.get(b"x-forwarded-port", "443"))),
    }


def _pairs(event: Mapping[str, Any], multiple: str, single: str) -> list[tuple[str, str]]:
    """A REST event tells every value in the one map and the last value in the other; hand-made events have either."""
    if event.get(multiple):
        return [(name, value) for name, values in event[multiple].items() for value in values]
    return list((event.get(single) or {}).items())


def _body(event: Mapping[str, Any]) -> bytes:
    body = event.get("body") or ""
    return base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else str(body).encode("utf-8")
