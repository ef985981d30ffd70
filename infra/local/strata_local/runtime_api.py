"""The Runtime API of one function process: what Lambda is to the code that it runs.

A process asks for `/next`, works, and posts a buffered reply, a streamed one, or an error. What it posts comes out of
the invocation as parts, in order: `Buffered`, or `Started`, `Piece`s and `Ended`, or `Failed`, which may also end a
stream that has started.
"""

from __future__ import annotations

import json
import queue
import socket
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from strata_local.invocations import Buffered, Ended, Failed, Invocation
from strata_local.streamed_replies import BadReply, failure_told, read_chunk, read_stream, read_trailers

RUNTIME = "/2018-06-01/runtime"
MAX_BUFFERED_BYTES = 6 * 1024 * 1024
TRUNCATION_GRACE_S = 2.0
"""How long a broken reply waits for the news that its process has ended, which explains it better."""
SETTLE_LIMIT_S = 1.0
SETTLE_STEP_S = 0.01


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
            api.init_error = failure_told(self.headers.get("Lambda-Runtime-Function-Error-Type"), self._body())
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
            invocation.emit(failure_told(self.headers.get("Lambda-Runtime-Function-Error-Type"), self._body()))
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
