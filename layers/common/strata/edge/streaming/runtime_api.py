"""The platform's side: invocations come from the Runtime API, replies go to it in pieces."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import logging
import os
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

log = logging.getLogger("strata.streaming")

RUNTIME = "/2018-06-01/runtime"
CONTENT_TYPE = "application/vnd.awslambda.http-integration-response"
DELIMITER = b"\0" * 8
MAX_PRELUDE_BYTES = 16 * 1024
"""The prelude and its delimiter must lie in the first 16 KB of the stream."""

_NOT_FORWARDED = frozenset(
    {"connection", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)


class PreludeTooLarge(Exception):
    """The reply's headers are larger than the platform accepts."""


class StreamBroken(Exception):
    """The platform no longer takes the reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaContext:
    """What the application can know about its invocation; the names are those of the runtime's own context."""

    aws_request_id: str
    invoked_function_arn: str
    deadline_ms: int
    function_name: str = ""
    function_version: str = ""
    memory_limit_in_mb: str = ""
    log_group_name: str = ""
    log_stream_name: str = ""

    def get_remaining_time_in_millis(self) -> int:
        return max(0, self.deadline_ms - int(time.time() * 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One request of the Runtime API. `invocation_id` is sent back where the platform gave one."""

    event: Mapping[str, Any]
    context: LambdaContext
    trace_id: str | None = None
    invocation_id: str | None = None


def prelude_of(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Status and headers as the JSON that goes first, with its delimiter.

    Cookies have a list of their own, repeated headers another; headers that speak of this connection stay behind.
    Raises `PreludeTooLarge`.
    """
    single: dict[str, str] = {}
    multiple: dict[str, list[str]] = {}
    cookies: list[str] = []
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in _NOT_FORWARDED:
            continue
        if name == "set-cookie":
            cookies.append(value)
        elif name in multiple:
            multiple[name].append(value)
        elif name in single:
            multiple[name] = [single.pop(name), value]
        else:
            single[name] = value
    content: dict[str, Any] = {"statusCode": status, "headers": single}
    if multiple:
        content["multiValueHeaders"] = multiple
    if cookies:
        content["cookies"] = cookies
    prelude = json.dumps(content, separators=(",", ":")).encode("ascii") + DELIMITER
    if len(prelude) > MAX_PRELUDE_BYTES:
        raise PreludeTooLarge(f"Status and headers take {len(prelude)} bytes; {MAX_PRELUDE_BYTES} are allowed.")
    return prelude


def error_document(error: BaseException) -> dict[str, Any]:
    """The error as the platform records it. It never reaches a reader: the gateway answers with its own text."""
    return {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "stackTrace": traceback.format_exception(error)[1:],
    }


class RuntimeApi:
    """The platform's side of the Runtime API, as a client. Every call blocks."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._polling = http.client.HTTPConnection(address)

    def next_invocation(self) -> Invocation:
        """Wait, for as long as it takes, for the next request."""
        self._polling.request("GET", f"{RUNTIME}/invocation/next")
        response = self._polling.getresponse()
        body = response.read()
        if response.status != http.client.OK:
            raise ConnectionError(f"The Runtime API answered {response.status} to a request for an invocation.")
        context = LambdaContext(
            aws_request_id=response.headers["Lambda-Runtime-Aws-Request-Id"],
            invoked_function_arn=response.headers.get("Lambda-Runtime-Invoked-Function-Arn", ""),
            deadline_ms=int(response.headers["Lambda-Runtime-Deadline-Ms"]),
            function_name=os.environ.get("AWS_LAMBDA_FUNCTION_NAME", ""),
            function_version=os.environ.get("AWS_LAMBDA_FUNCTION_VERSION", ""),
            memory_limit_in_mb=os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", ""),
            log_group_name=os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", ""),
            log_stream_name=os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", ""),
        )
        event = json.loads(body)
        return Invocation(
            event=event if isinstance(event, dict) else {},
            context=context,
            trace_id=response.headers.get("Lambda-Runtime-Trace-Id"),
            invocation_id=response.headers.get("Lambda-Runtime-Invocation-Id"),
        )

    def open_stream(self, invocation: Invocation, prelude: bytes) -> ReplyStream:
        """Send the prelude; what follows goes through the stream that is returned."""
        connection = http.client.HTTPConnection(self._address)
        path = f"{RUNTIME}/invocation/{invocation.context.aws_request_id}/response"
        with _breaking():
            connection.putrequest("POST", path, skip_accept_encoding=True)
            connection.putheader("Content-Type", CONTENT_TYPE)
            connection.putheader("Lambda-Runtime-Function-Response-Mode", "streaming")
            connection.putheader("Transfer-Encoding", "chunked")
            connection.putheader("Trailer", "Lambda-Runtime-Function-Error-Type")
            connection.putheader("Trailer", "Lambda-Runtime-Function-Error-Body")
            if invocation.invocation_id:
                connection.putheader("Lambda-Runtime-Invocation-Id", invocation.invocation_id)
            connection.endheaders()
        stream = ReplyStream(connection)
        stream.write(prelude)
        return stream

    def report_error(self, invocation: Invocation, error: BaseException) -> None:
        headers = {"Lambda-Runtime-Invocation-Id": invocation.invocation_id} if invocation.invocation_id else {}
        self._report(f"{RUNTIME}/invocation/{invocation.context.aws_request_id}/error", error_document(error), headers)

    def report_init_error(self, error: BaseException, error_type: str) -> None:
        self._report(f"{RUNTIME}/init/error", {**error_document(error), "errorType": error_type}, {})

    def _report(self, path: str, document: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        connection = http.client.HTTPConnection(self._address)
        with contextlib.closing(connection):
            kind = {"Content-Type": "application/json", "Lambda-Runtime-Function-Error-Type": document["errorType"]}
            connection.request("POST", path, json.dumps(document).encode("utf-8"), {**kind, **headers})
            response = connection.getresponse()
            response.read()
            if response.status >= 300:
                log.error("The Runtime API answered %d to an error report.", response.status)


class ReplyStream:
    """A reply under way. Every call blocks; a broken connection is a `StreamBroken`."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def write(self, data: bytes) -> None:
        if data:  # an empty chunk would end the stream
            with _breaking():
                self._connection.send(b"%x\r\n%s\r\n" % (len(data), data))

    def close(self, error: BaseException | None = None) -> None:
        """End the reply; with an error, in the trailers."""
        trailers = b""
        if error is not None:
            body = base64.b64encode(json.dumps(error_document(error)).encode("utf-8"))
            kind = type(error).__name__.encode("ascii", "replace")
            trailers = b"Lambda-Runtime-Function-Error-Type: %s\r\nLambda-Runtime-Function-Error-Body: %s\r\n" % (
                kind,
                body,
            )
        with _breaking(), contextlib.closing(self._connection):
            self._connection.send(b"0\r\n" + trailers + b"\r\n")
            response = self._connection.getresponse()
            response.read()
            if response.status >= 300:
                raise StreamBroken(f"The Runtime API answered {response.status} to a reply.")


@contextlib.contextmanager
def _breaking() -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise StreamBroken(f"The reply could not be sent: {error}.") from error
