"""The query function's bootstrap against a Runtime API: what goes over the wire, and what ends the process."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from strata_local.invocations import Ended, Failed, Invocation, Part, Piece, Started
from strata_local.runtime_api import RuntimeApi

ROOT = Path(__file__).parents[3]
STACK = ROOT / "tests" / "support" / "local_stack"


def event(path: str, method: str = "GET") -> bytes:
    document: dict[str, Any] = {"httpMethod": method, "path": path, "requestContext": {}, "headers": {}, "body": None}
    return json.dumps(document).encode()


def spawn(address: str, *, folder: Path, handler: str = "app.app") -> subprocess.Popen[bytes]:
    environment = {
        "PATH": os.environ["PATH"],
        "AWS_LAMBDA_RUNTIME_API": address,
        "LAMBDA_TASK_ROOT": str(folder),
        "_HANDLER": handler,
        "PYTHONPATH": str(ROOT / "layers" / "common"),
    }
    return subprocess.Popen([str(ROOT / "functions/query/bootstrap"), sys.executable], env=environment, cwd=folder)


def parts_of(invocation: Invocation) -> list[tuple[float, Part]]:
    """All parts of a reply, each with the moment when it came."""
    parts: list[tuple[float, Part]] = []
    started = time.monotonic()
    while not (parts and isinstance(parts[-1][1], Ended | Failed)):
        part = invocation.next_part(20)
        assert part is not None, "the reply does not end"
        parts.append((time.monotonic() - started, part))
    return parts


@pytest.fixture
def api() -> Iterator[RuntimeApi]:
    runtime_api = RuntimeApi(function_arn="arn:aws:lambda:us-east-1:123456789012:function:Query")
    yield runtime_api
    runtime_api.close()


class TestFastApi:
    @pytest.fixture
    def ask(self, api: RuntimeApi) -> Iterator[Any]:
        process = spawn(api.address, folder=STACK / "fastapi_stream")

        def ask(path: str, method: str = "GET") -> list[tuple[float, Part]]:
            invocation = Invocation(event(path, method), timeout_s=20)
            api.submit(invocation)
            return parts_of(invocation)

        yield ask
        process.kill()
        process.wait()

    def test_an_asynchronous_stream_arrives_piece_by_piece(self, ask: Any) -> None:
        ask("/items/1")
        parts = ask("/asynchronous")
        assert [part for _, part in parts[1:]] == [
            Piece(data=b"data: 0\n\n"),
            Piece(data=b"data: 1\n\n"),
            Piece(data=b"data: 2\n\n"),
            Ended(),
        ]
        moments = [moment for moment, part in parts if isinstance(part, Piece)]
        assert moments[2] - moments[0] > 0.15

    def test_a_synchronous_stream_arrives(self, ask: Any) -> None:
        assert (
            b"".join(part.data for _, part in ask("/synchronous") if isinstance(part, Piece))
            == b"data: 0\n\ndata: 1\n\n"
        )

    def test_a_json_reply_arrives(self, ask: Any) -> None:
        (_, started), (_, piece), (_, ended) = ask("/items/7")
        assert isinstance(started, Started)
        assert ("content-type", "application/json") in started.headers
        assert (piece, ended) == (Piece(data=b'{"number":7}'), Ended())

    @pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/items/x", 422), ("/fails", 500)])
    def test_the_frameworks_own_errors_are_whole_replies(self, ask: Any, path: str, status: int) -> None:
        parts = [part for _, part in ask(path)]
        assert isinstance(parts[0], Started)
        assert (parts[0].status, parts[-1]) == (status, Ended())
        assert b"secret" not in b"".join(part.data for part in parts if isinstance(part, Piece))

    def test_an_event_that_is_no_request_is_an_error_and_the_next_one_works(self, ask: Any, api: RuntimeApi) -> None:
        for strange in (b'{"Records": []}', b"[]", b"null"):
            invocation = Invocation(strange, timeout_s=20)
            api.submit(invocation)
            ((_, failure),) = parts_of(invocation)
            assert isinstance(failure, Failed)
            assert failure.error_type == "InvalidEvent"
        assert len(ask("/items/1")) == 3


@pytest.mark.parametrize(
    ("source", "handler", "error_type"),
    [
        pytest.param("raise ImportError('missing')", "app.app", "Runtime.ImportModuleError", id="import error"),
        pytest.param("def", "app.app", "Runtime.UserCodeSyntaxError", id="syntax error"),
        pytest.param("other = 1", "app.app", "Runtime.HandlerNotFound", id="no such name"),
        pytest.param("", "app", "Runtime.HandlerNotFound", id="malformed handler"),
        pytest.param("1 / 0", "app.app", "Runtime.ZeroDivisionError", id="any other error"),
        pytest.param("raise SystemExit(0)", "app.app", "Runtime.SystemExit", id="an exit"),
        pytest.param(
            "async def app(scope, receive, send):\n"
            "    await receive()\n"
            "    await send({'type': 'lifespan.startup.failed', 'message': 'no database'})\n",
            "app.app",
            "Runtime.RuntimeError",
            id="a start that fails",
        ),
    ],
)
def test_an_application_that_cannot_start_is_an_init_error(
    api: RuntimeApi, source: str, handler: str, error_type: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(source)
        process = spawn(api.address, folder=Path(folder), handler=handler)
        assert process.wait(20) == 1
    assert api.init_error is not None
    assert api.init_error.error_type == error_type


def test_sigterm_runs_the_end_of_the_lifespan(api: RuntimeApi) -> None:
    source = (
        "import pathlib\n"
        "async def app(scope, receive, send):\n"
        "    if scope['type'] == 'lifespan':\n"
        "        await receive()\n"
        "        await send({'type': 'lifespan.startup.complete'})\n"
        "        await receive()\n"
        "        pathlib.Path('ended').touch()\n"
        "        await send({'type': 'lifespan.shutdown.complete'})\n"
        "        return\n"
        "    await send({'type': 'http.response.start', 'status': 204, 'headers': []})\n"
        "    await send({'type': 'http.response.body'})\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(source)
        process = spawn(api.address, folder=Path(folder))
        invocation = Invocation(event("/"), timeout_s=20)
        api.submit(invocation)
        assert [type(part) for _, part in parts_of(invocation)] == [Started, Ended]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert (Path(folder) / "ended").exists()


def test_the_process_ends_with_its_runtime_api() -> None:
    runtime_api = RuntimeApi(function_arn="arn")
    process = spawn(runtime_api.address, folder=STACK / "stream")
    invocation = Invocation(event("/stream/nothing"), timeout_s=20)
    runtime_api.submit(invocation)
    parts_of(invocation)
    runtime_api.close()
    assert process.wait(60) == 1


class _RecordingServer(HTTPServer):
    """A Runtime API that keeps the raw bytes of one streamed reply."""

    path_asked = ""
    raw = b""


class _RecordingHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _RecordingServer
    served = False

    def do_GET(self) -> None:
        path = self.server.path_asked
        if not path:
            self.close_connection = True
            return
        self.server.path_asked = ""
        body = event(path)
        self.send_response(200)
        self.send_header("Lambda-Runtime-Aws-Request-Id", "request-1")
        self.send_header("Lambda-Runtime-Invocation-Id", "invocation-1")
        self.send_header("Lambda-Runtime-Deadline-Ms", str(int(time.time() * 1000) + 30_000))
        self.send_header("Lambda-Runtime-Trace-Id", "Root=1-5-6")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def do_POST(self) -> None:
        head = f"{self.command} {self.path} {self.request_version}\r\n{self.headers}".encode()
        body = b""
        while not body.endswith(b"\r\n\r\n") or b"\r\n0\r\n" not in body:
            body += self.rfile.read1(65536)
        self.server.raw = head + body
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def recorded(path: str) -> tuple[dict[str, list[str]], str, bytes]:
    """What the bootstrap sends for one request: headers, request line, raw body."""
    with _RecordingServer(("127.0.0.1", 0), _RecordingHandler) as server:
        server.path_asked = path
        process = spawn(f"127.0.0.1:{server.server_address[1]}", folder=STACK / "stream")
        server.timeout = 20
        try:
            while not server.raw:
                server.handle_request()
        finally:
            process.kill()
            process.wait()
    head, _, body = server.raw.partition(b"\n\n")
    line, *lines = head.decode().splitlines()
    headers: dict[str, list[str]] = {}
    for each in lines:
        name, _, value = each.partition(": ")
        headers.setdefault(name.lower(), []).append(value.strip())
    return headers, line, body


class TestWireFormat:
    def test_a_reply_without_a_body_is_prelude_delimiter_and_end(self) -> None:
        headers, line, body = recorded("/stream/nothing")
        assert line == "POST /2018-06-01/runtime/invocation/request-1/response HTTP/1.1"
        assert headers["content-type"] == ["application/vnd.awslambda.http-integration-response"]
        assert headers["lambda-runtime-function-response-mode"] == ["streaming"]
        assert headers["transfer-encoding"] == ["chunked"]
        assert headers["trailer"] == ["Lambda-Runtime-Function-Error-Type", "Lambda-Runtime-Function-Error-Body"]
        assert headers["lambda-runtime-invocation-id"] == ["invocation-1"]
        prelude = b'{"statusCode":204,"headers":{}}' + b"\0" * 8
        assert body == b"%x\r\n%s\r\n0\r\n\r\n" % (len(prelude), prelude)

    def test_an_error_in_the_stream_lies_in_the_trailers(self) -> None:
        _, _, body = recorded("/stream/raises-after")
        assert b"\r\n5\r\nbegun\r\n0\r\n" in body
        trailers = body.rpartition(b"\r\n0\r\n")[2].decode().strip().splitlines()
        names = dict(line.split(": ", 1) for line in trailers)
        assert names["Lambda-Runtime-Function-Error-Type"] == "ValueError"
        detail = json.loads(base64.b64decode(names["Lambda-Runtime-Function-Error-Body"]))
        assert (detail["errorType"], detail["errorMessage"]) == ("ValueError", "a secret detail")


def test_a_runtime_api_that_is_not_there_ends_the_process() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        process = spawn(address, folder=STACK / "stream")
        assert process.wait(20) == 1


def test_an_event_is_not_handed_to_a_process_that_has_gone(api: RuntimeApi) -> None:
    process = spawn(api.address, folder=STACK / "stream")
    first = Invocation(event("/stream/nothing"), timeout_s=20)
    api.submit(first)
    parts_of(first)
    time.sleep(0.2)  # it asks for its next event
    process.kill()
    process.wait()
    unseen = Invocation(event("/stream/nothing"), timeout_s=20)
    api.submit(unseen)
    time.sleep(0.2)
    assert unseen.deadline is None
