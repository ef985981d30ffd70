"""An ASGI application ↔ Lambda's response stream: what runs instead of the runtime's own client.

The managed Python runtime can only send a whole reply. `AWS_LAMBDA_EXEC_WRAPPER` lets a function replace the runtime,
so `bootstrap` starts this module: it asks the Runtime API for an invocation, gives it to the application as an ASGI
request and sends every part of the reply on as it is made. `_HANDLER` names the application as `module.attribute`.

What a reply looks like on the wire: a JSON prelude (status and headers), eight NUL bytes, the body in HTTP chunks. The
prelude leaves with `http.response.start` at once, also where no body follows (204, 302, HEAD): a reply that starts
with its first body byte would never start there. An error before the prelude is an ordinary invocation error; one
after it travels in the trailers.

The application finds in its scope: `aws.event`, `aws.context`, and `strata.deadline_ms` (epoch milliseconds) when
the platform will stop it. One that is still busy `DEADLINE_MARGIN_S` before that is cancelled, and an event stream gets
a last `error` event, because a reader must not be left in silence. A reader who goes away is never noticed: Lambda has
no signal for it, so `receive` waits until the reply has ended.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import importlib
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import unquote, urlencode, urlsplit

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

RUNTIME = "/2018-06-01/runtime"
CONTENT_TYPE = "application/vnd.awslambda.http-integration-response"
DELIMITER = b"\0" * 8
MAX_PRELUDE_BYTES = 16 * 1024
"""The prelude and its delimiter must lie in the first 16 KB of the stream."""

DEADLINE_MARGIN_S = 1.0
CANCEL_GRACE_S = 0.3
SHUTDOWN_GRACE_S = 1.0

_NOT_FORWARDED = frozenset(
    {"connection", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_BODILESS = frozenset({204, 304})

log = logging.getLogger("strata.streaming")


class HandlerNotFound(Exception):
    """`_HANDLER` names no application."""


class InvalidEvent(Exception):
    """The event is no HTTP request of API Gateway (REST or HTTP API) or of a function URL."""


class PreludeTooLarge(Exception):
    """The reply's headers are larger than the platform accepts."""


class IncompleteReply(Exception):
    """The application returned before its reply was complete."""


class DeadlineExceeded(Exception):
    """The application was still busy when the function's time was nearly over."""


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


# --- event → request -------------------------------------------------------------------------------------------------


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


# --- reply → stream --------------------------------------------------------------------------------------------------


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


# --- one invocation --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Exchange:
    """One request and its reply, between the application and the Runtime API."""

    api: RuntimeApi
    invocation: Invocation
    method: str
    body: bytes
    stream: ReplyStream | None = None
    is_event_stream: bool = False
    has_body: bool = True
    complete: bool = False
    _request_taken: bool = False
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self) -> Message:
        if not self._request_taken:
            self._request_taken = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self._ended.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.stream is not None:
                raise RuntimeError("The reply has started already.")
            status, headers = int(message["status"]), list(message.get("headers") or ())
            prelude = prelude_of(status, headers)
            self.has_body = self.method != "HEAD" and status not in _BODILESS
            self.is_event_stream = any(
                name.lower() == b"content-type" and value.lower().startswith(b"text/event-stream")
                for name, value in headers
            )
            self.stream = await asyncio.to_thread(self.api.open_stream, self.invocation, prelude)
        elif message["type"] == "http.response.body":
            if self.stream is None or self.complete:
                raise RuntimeError("A piece of the body outside the reply.")
            if self.has_body and message.get("body"):
                await asyncio.to_thread(self.stream.write, bytes(message["body"]))
            if not message.get("more_body", False):
                await self.end()
        else:
            raise RuntimeError(f"The platform has no way to send {message['type']!r}.")

    async def end(self, error: BaseException | None = None) -> None:
        if self.complete:
            return
        self.complete = True
        try:
            if self.stream is not None:
                await asyncio.to_thread(self.stream.close, error)
            elif error is not None:
                await asyncio.to_thread(self.api.report_error, self.invocation, error)
        finally:
            self._ended.set()

    async def end_at_deadline(self) -> None:
        """Tell the reader of an event stream why it ends; anything else ends as an error."""
        error = DeadlineExceeded("The function's time is nearly over; the reply was cut off.")
        if self.stream is None or not self.is_event_stream or not self.has_body:
            await self.end(error)
        elif not self.complete:
            data = json.dumps({"code": "deadline_exceeded", "message": "The answer took too long and was cut off."})
            await asyncio.to_thread(self.stream.write, f"\n\nevent: error\ndata: {data}\n\n".encode())
            await self.end()


class Runner:
    """Serves an ASGI application, one invocation at a time, until the platform says stop."""

    def __init__(self, application: Application, api: RuntimeApi) -> None:
        self._application = application
        self._api = api
        self._lifespan = Lifespan(application)

    async def run(self) -> None:
        """Start the application, then serve; ends on SIGTERM. An error at the start is reported and raised."""
        try:
            await self._lifespan.startup()
        except Exception as error:
            await asyncio.to_thread(self._api.report_init_error, error, f"Runtime.{type(error).__name__}")
            raise
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        serving = asyncio.create_task(self._serve())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        await asyncio.wait_for(self._lifespan.shutdown(), SHUTDOWN_GRACE_S)

    async def _serve(self) -> NoReturn:
        while True:
            await self.invoke(await _in_daemon_thread(self._api.next_invocation))

    async def invoke(self, invocation: Invocation) -> None:
        """Run one request to its end. What the application raises is reported, never raised here."""
        if invocation.trace_id is not None:
            os.environ["_X_AMZN_TRACE_ID"] = invocation.trace_id
        try:
            scope, body = request_of(invocation.event)
        except InvalidEvent as error:
            log.error("%s", error)
            await asyncio.to_thread(self._api.report_error, invocation, error)
            return
        scope["state"] = dict(self._lifespan.state)
        scope["aws.event"] = invocation.event
        scope["aws.context"] = invocation.context
        scope["strata.deadline_ms"] = invocation.context.deadline_ms
        exchange = Exchange(api=self._api, invocation=invocation, method=scope["method"], body=body)
        work = asyncio.ensure_future(self._application(scope, exchange.receive, exchange.send))
        remaining_s = invocation.context.deadline_ms / 1000 - time.time() - DEADLINE_MARGIN_S
        done, _ = await asyncio.wait((work,), timeout=max(0.0, remaining_s))
        try:
            if not done:
                await self._cut_off(work, exchange)
            elif (failure := work.exception()) is not None:
                log.error("The application failed.", exc_info=failure)
                await exchange.end(failure)
            else:
                await exchange.end(None if exchange.complete else IncompleteReply("The reply was not complete."))
        except StreamBroken as error:
            log.error("%s", error)

    async def _cut_off(self, work: asyncio.Future[None], exchange: Exchange) -> None:
        log.error("The function's time is nearly over; the application is cancelled.")
        work.cancel()
        await asyncio.wait((work,), timeout=CANCEL_GRACE_S)
        await exchange.end_at_deadline()
        if not work.done():
            # A thread that nothing can stop would go on beside the next request.
            log.error("The application could not be cancelled; the process ends.")
            _exit(1)


class Lifespan:
    """The application's start and end, once a process. An application without a lifespan has none."""

    def __init__(self, application: Application) -> None:
        self.state: dict[str, Any] = {}
        self._application = application
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._outbox: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def startup(self) -> None:
        """Raises RuntimeError with the application's own words when its start failed."""
        scope: Scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }

        async def run() -> None:
            await self._application(scope, self._inbox.get, self._outbox.put)

        self._task = asyncio.create_task(run())
        reply = await self._exchange(self._task, "lifespan.startup")
        if reply is None:
            self._task = None
        elif reply["type"] == "lifespan.startup.failed":
            raise RuntimeError(f"The application did not start: {reply.get('message', '')}")

    async def shutdown(self) -> None:
        if self._task is not None:
            await self._exchange(self._task, "lifespan.shutdown")

    async def _exchange(self, task: asyncio.Task[None], question: str) -> Message | None:
        """The application's reply; None when its task ended without one (it raised: it knows no lifespan)."""
        await self._inbox.put({"type": question})
        answer = asyncio.create_task(self._outbox.get())
        await asyncio.wait((answer, task), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        if (error := task.exception()) is not None:
            log.debug("The application has no lifespan: %r", error)
        return None


async def _in_daemon_thread(function: Callable[[], Invocation]) -> Invocation:
    """Like `asyncio.to_thread`, in a thread that a process's end does not wait for: the wait has no time limit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Invocation] = loop.create_future()

    def settle(result: Invocation | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        elif result is not None:
            future.set_result(result)

    def run() -> None:
        result: Invocation | None = None
        fault: BaseException | None = None
        try:
            result = function()
        except BaseException as error:
            fault = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            loop.call_soon_threadsafe(settle, result, fault)

    threading.Thread(target=run, name="next-invocation", daemon=True).start()
    return await future


# --- the process -----------------------------------------------------------------------------------------------------


def load_application(handler: str) -> Application:
    """The application that `module.attribute` names; slashes in the module part mean folders.

    Raises `HandlerNotFound`, or whatever the module raises while it is imported.
    """
    module_name, _, attribute = handler.rpartition(".")
    if not module_name or not attribute:
        raise HandlerNotFound(f"_HANDLER must read module.attribute, not {handler!r}.")
    module = importlib.import_module(module_name.replace("/", "."))
    application = getattr(module, attribute, None)
    if not callable(application):
        raise HandlerNotFound(f"Module {module_name} holds no application {attribute!r}.")
    return application  # type: ignore[no-any-return]


def _init_error_type(error: BaseException) -> str:
    match error:
        case HandlerNotFound():
            return "Runtime.HandlerNotFound"
        case ImportError():
            return "Runtime.ImportModuleError"
        case SyntaxError():
            return "Runtime.UserCodeSyntaxError"
        case _:
            return f"Runtime.{type(error).__name__}"


def _exit(status: int) -> NoReturn:
    """End at once: the thread that waits for an invocation can't be interrupted."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> None:
    logging.basicConfig(
        level=os.environ.get("AWS_LAMBDA_LOG_LEVEL", "INFO"), format="[%(levelname)s] %(name)s: %(message)s"
    )
    api = RuntimeApi(os.environ["AWS_LAMBDA_RUNTIME_API"])
    try:
        application = load_application(os.environ["_HANDLER"])
    except BaseException as error:
        log.error("The application can't be loaded.", exc_info=error)
        api.report_init_error(error, _init_error_type(error))
        _exit(1)
    asyncio.run(_run_and_exit(Runner(application, api)))


async def _run_and_exit(runner: Runner) -> NoReturn:
    """Exit from inside the loop: its orderly end would wait for threads that the application left busy."""
    try:
        await runner.run()
    except Exception as error:
        log.error("The runtime ends.", exc_info=error)
        _exit(1)
    _exit(0)


if __name__ == "__main__":
    main()
