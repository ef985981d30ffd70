"""The Runtime API of one function process: what Lambda is to the code that it runs.

A process asks for `/next`, works, and posts a buffered reply, a streamed one, or an error. What it posts comes out of
the invocation as parts, in order: `Buffered`, or `Started`, `Piece`s and `Ended`, or `Failed`, which may also end a
stream that has started.
"""

from __future__ import annotations

import base64
import binascii
import json
import queue
import socket
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO

RUNTIME = "/2018-06-01/runtime"
DELIMITER = b"\0" * 8
MAX_PRELUDE_BYTES = 16 * 1024
MAX_BUFFERED_BYTES = 6 * 1024 * 1024
TRUNCATION_GRACE_S = 2.0
"""How long a broken reply waits for the news that its process has ended, which explains it better."""
SETTLE_LIMIT_S = 1.0
SETTLE_STEP_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffered:
    """A whole reply: what the handler returned, as JSON."""

    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The head of a streamed reply. `headers` may repeat a name; cookies are among them."""

    status: int
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The next bytes of a streamed reply's body."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The streamed reply is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The invocation ended without a (whole) reply; `error_type` is what Lambda would report."""

    error_type: str
    message: str
    detail: Mapping[str, Any] = field(default_factory=dict)


Part = Buffered | Started | Piece | Ended | Failed


class BadReply(Exception):
    """What the process posted breaks the protocol."""


class Invocation:
    """One event on its way through a function process, and the parts of the reply."""

    def __init__(self, event: bytes, *, timeout_s: float) -> None:
        self.request_id = str(uuid.uuid4())
        self.invocation_id = uuid.uuid4().hex
        self.event = event
        self.timeout_s = timeout_s
        self.deadline: float | None = None
        self.ended = threading.Event()
        self._parts: queue.SimpleQueue[Part] = queue.SimpleQueue()
        self._lock = threading.Lock()

    def hand_over(self) -> int:
        """The process has taken the event: its time runs from now. Returns the deadline in epoch milliseconds."""
        self.deadline = time.monotonic() + self.timeout_s
        return int((time.time() + self.timeout_s) * 1000)

    def emit(self, part: Part) -> None:
        """Add a part; nothing follows the last one (whoever ends an invocation first is right)."""
        with self._lock:
            if self.ended.is_set():
                return
            self._parts.put(part)
            if isinstance(part, Buffered | Ended | Failed):
                self.ended.set()

    def next_part(self, timeout_s: float) -> Part | None:
        """The next part, or None when none came in time."""
        try:
            return self._parts.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None


class RuntimeApi:
    """A server on a free port of this machine for one function process, which gets one event at a time."""

    def __init__(self, *, function_arn: str) -> None:
        self.function_arn = function_arn
        self.current: Invocation | None = None
        self.init_error: Failed | None = None
        self._waiting: queue.SimpleQueue[Invocation | None] = queue.SimpleQueue()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.api = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="runtime-api", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def submit(self, invocation: Invocation) -> None:
        """Give the process its next event; the one before must have ended."""
        self.current = invocation
        self._waiting.put(invocation)

    def take(self) -> Invocation | None:
        """Block until there is an event; None when the API is closed."""
        return self._waiting.get()

    def fail(self, failure: Failed) -> None:
        """End the present invocation, if it has not ended already."""
        if self.current is not None:
            self.current.emit(failure)

    def settle(self) -> None:
        """The process has ended: read to its end what it had sent before."""
        self._waiting.put(None)
        limit = time.monotonic() + SETTLE_LIMIT_S
        quiet = 0
        while quiet < 2 and time.monotonic() < limit:  # a connection may still wait to be accepted
            time.sleep(SETTLE_STEP_S)
            quiet = quiet + 1 if self._server.connections == 0 else 0

    def close(self) -> None:
        self._waiting.put(None)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    api: RuntimeApi
    connections = 0
    _counting = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._counting:
            self.connections += 1
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._counting:
                self.connections -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that a dying process leaves behind is no news: its exit is reported."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Unbuffered writes with Nagle's algorithm cost 45 ms an invocation (delayed acknowledgements); so 1 to 2 ms.
    wbufsize = 65536
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        if self.path != f"{RUNTIME}/invocation/next":
            self._reply(404, {"errorType": "NotFound", "errorMessage": self.path})
            return
        invocation = self.server.api.take()
        if invocation is None or self._peer_is_gone():  # then the process's end is about to be reported
            self.close_connection = True
            return
        deadline_ms = invocation.hand_over()
        headers = {
            "Content-Type": "application/json",
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Invocation-Id": invocation.invocation_id,
            "Lambda-Runtime-Deadline-Ms": str(deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": self.server.api.function_arn,
            "Lambda-Runtime-Trace-Id": f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]};Sampled=0",
        }
        self._reply(200, invocation.event, headers)

    def do_POST(self) -> None:
        api = self.server.api
        if self.path == f"{RUNTIME}/init/error":
            api.init_error = _failure(self.headers.get("Lambda-Runtime-Function-Error-Type"), self._body())
            api.fail(api.init_error)
            self._reply(202, {"status": "OK"})
            return
        *_, request_id, action = self.path.split("/")
        invocation = api.current
        wrong_echo = self.headers.get("Lambda-Runtime-Invocation-Id") not in (
            None,
            invocation and invocation.invocation_id,
        )
        if invocation is None or invocation.request_id != request_id or wrong_echo or invocation.ended.is_set():
            self.close_connection = True
            self._reply(400, {"errorType": "InvalidRequestID", "errorMessage": "This invocation is not under way."})
        elif action == "error":
            invocation.emit(_failure(self.headers.get("Lambda-Runtime-Function-Error-Type"), self._body()))
            self._reply(202, {"status": "OK"})
        elif action == "response" and self.headers.get("Lambda-Runtime-Function-Response-Mode") == "streaming":
            self._take_stream(invocation)
        elif action == "response":
            self._take_buffered(invocation)
        else:
            self._reply(404, {"errorType": "NotFound", "errorMessage": self.path})

    def _peer_is_gone(self) -> bool:
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _take_buffered(self, invocation: Invocation) -> None:
        payload = self._body()
        if len(payload) > MAX_BUFFERED_BYTES:
            message = f"Response payload size exceeded maximum allowed payload size ({MAX_BUFFERED_BYTES} bytes)."
            invocation.emit(Failed(error_type="Function.ResponseSizeTooLarge", message=message))
            self._reply(413, {"errorType": "RequestEntityTooLarge", "errorMessage": message})
            return
        # The reply to the process comes first: once the invocation has ended, the process may get its next event.
        self._reply(202, {"status": "OK"})
        invocation.emit(Buffered(payload=payload))

    def _take_stream(self, invocation: Invocation) -> None:
        try:
            trailing_failure = read_stream(self.rfile, invocation)  # type: ignore[arg-type]
        except (BadReply, OSError) as error:
            self.close_connection = True
            failure = Failed(error_type="Runtime.TruncatedResponse", message=str(error))
            later = threading.Timer(TRUNCATION_GRACE_S, invocation.emit, [failure])
            later.daemon = True
            later.start()
            return
        self._reply(202, {"status": "OK"})
        invocation.emit(trailing_failure or Ended())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            chunks = []
            while chunk := read_chunk(self.rfile):  # type: ignore[arg-type]
                chunks.append(chunk)
            read_trailers(self.rfile)  # type: ignore[arg-type]
            return b"".join(chunks)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _reply(self, status: int, body: bytes | Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode("utf-8")
        self.send_response(status)
        for name, value in (headers or {"Content-Type": "application/json"}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the function's own log tells about each invocation."""


# --- the wire format of a streamed reply -----------------------------------------------------------------------------


def read_stream(source: BinaryIO, invocation: Invocation) -> Failed | None:
    """Read a chunked reply to its end and emit its parts as they come, but for the last; the failure in its trailers.

    Raises `BadReply`.
    """
    head = b""
    started = False
    while chunk := read_chunk(source):
        if started:
            invocation.emit(Piece(data=chunk))
            continue
        head += chunk
        prelude, delimiter, rest = head.partition(DELIMITER)
        if delimiter and len(prelude) + len(delimiter) <= MAX_PRELUDE_BYTES:
            invocation.emit(parse_prelude(prelude))
            started = True
            if rest:
                invocation.emit(Piece(data=rest))
        elif len(head) > MAX_PRELUDE_BYTES:
            raise BadReply("The first 16 KB of the reply hold no prelude with its delimiter.")
    trailers = read_trailers(source)
    failure = failure_of(trailers)
    if not started and failure is None:
        raise BadReply("The reply ended before its prelude was complete.")
    return failure


def read_chunk(source: BinaryIO) -> bytes:
    """One chunk of HTTP's chunked coding; empty at the end. Raises `BadReply`."""
    line = source.readline(1024)
    try:
        size = int(line.split(b";")[0], 16)
    except ValueError:
        raise BadReply(f"The reply broke off: {line[:40]!r} is no chunk size.") from None
    if size == 0:
        return b""
    data = source.read(size)
    if len(data) != size or source.readline(3) != b"\r\n":
        raise BadReply("The reply broke off inside a chunk.")
    return data


def read_trailers(source: BinaryIO) -> dict[str, str]:
    """The header lines after the last chunk, by lower-case name. Raises `BadReply`."""
    trailers: dict[str, str] = {}
    while (line := source.readline(256 * 1024)) != b"\r\n":
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not line.endswith(b"\n"):
            raise BadReply("The reply broke off in its trailers.")
        trailers[name.strip().lower()] = value.strip()
    return trailers


def parse_prelude(text: bytes) -> Started:
    """Status and headers of a streamed reply. Raises `BadReply`.

    >>> parse_prelude(b'{"statusCode": 200, "headers": {"a": "1"}, "cookies": ["s=1"]}').headers
    (('a', '1'), ('set-cookie', 's=1'))
    """
    try:
        content = json.loads(text)
        status = content["statusCode"]
        headers = [(name, str(value)) for name, value in (content.get("headers") or {}).items()]
        headers += [
            (name, str(value)) for name, values in (content.get("multiValueHeaders") or {}).items() for value in values
        ]
        headers += [("set-cookie", str(cookie)) for cookie in content.get("cookies") or []]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadReply(f"The prelude is not valid: {type(error).__name__}: {error}.") from error
    if not isinstance(status, int) or not 100 <= status <= 599:
        raise BadReply(f"The prelude's statusCode is {status!r}.")
    return Started(status=status, headers=tuple(headers))


def failure_of(trailers: Mapping[str, str]) -> Failed | None:
    """The error that a stream's trailers tell of, if any."""
    error_type = trailers.get("lambda-runtime-function-error-type")
    if error_type is None:
        return None
    try:
        body = base64.b64decode(trailers.get("lambda-runtime-function-error-body", ""), validate=True)
    except binascii.Error:
        body = b""
    return _failure(error_type, body)


def _failure(error_type: str | None, body: bytes) -> Failed:
    try:
        detail = json.loads(body)
    except ValueError:
        detail = None
    if not isinstance(detail, dict):
        detail = {}
    return Failed(
        error_type=error_type or str(detail.get("errorType") or "Unhandled"),
        message=str(detail.get("errorMessage") or ""),
        detail=detail,
    )


def free_port() -> int:
    """A port of this machine that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
