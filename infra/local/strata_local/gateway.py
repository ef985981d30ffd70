"""The HTTP front: what API Gateway is to the functions.

A request becomes a REST event for the function of its route. A buffered route waits for the whole reply, a streaming
one passes each piece on as it comes; a function that answers in the other form is a 502, as on AWS. A reader who goes
away does not stop the function. What the gateway itself answers is in the template (GatewayResponses).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from strata_local.errors import LocalCloudError, PortTaken
from strata_local.functions import Functions
from strata_local.invocations import Buffered, Failed, Part, Piece, Started
from strata_local.rest_events import HttpRequest, MalformedReply, event_of, match_route, reply_of
from strata_local.stack import GatewayReply, Route, Stack
from strata_local.tokens import InvalidToken, claims_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_PAYLOAD_BYTES = 10 * 1024 * 1024
START_LIMIT_S = 60.0
STOP_PATIENCE_S = 2
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})

_PLAIN_FAILURE = GatewayReply(status=500, body=b'{"error": {"code": "internal", "message": "The gateway failed."}}')

log = logging.getLogger("strata_local.gateway")


class Gateway:
    """The front as an ASGI application."""

    def __init__(self, stack: Stack, functions: Functions, *, secret: str) -> None:
        self._stack = stack
        self._functions = functions
        self._secret = secret
        self._threads = ThreadPoolExecutor(max_workers=64, thread_name_prefix="gateway")

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise LocalCloudError(f"The gateway has no {scope['type']}.")
        reply = _Reply(send, request_id=str(uuid.uuid4()))
        raw_path = bytes(scope.get("raw_path") or b"/").partition(b"?")[0].decode("latin-1")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        by_name = dict(headers)
        if not _comes_from_here(by_name):
            await self._answer(reply, "ACCESS_DENIED")
            return
        matched = match_route(self._stack.routes, scope["method"], raw_path)
        if matched is None:
            await self._answer(reply, "MISSING_AUTHENTICATION_TOKEN")
            return
        route, path_parameters = matched
        try:
            claims = claims_of(by_name.get("authorization"), self._secret)
        except InvalidToken as error:
            log.info("%s %s: %s", scope["method"], raw_path, error)
            await self._answer(reply, "UNAUTHORIZED", [("www-authenticate", "Bearer")])
            return
        body = await _body(receive)
        if body is None:
            await self._answer(reply, "REQUEST_TOO_LARGE", [("connection", "close")])
            return
        request = HttpRequest(
            method=scope["method"],
            raw_path=raw_path,
            query_string=scope["query_string"].decode("latin-1"),
            headers=headers,
            body=body,
            source_ip=scope["client"][0] if scope.get("client") else "127.0.0.1",
            scheme=scope.get("scheme", "http"),
        )
        event = event_of(
            request,
            route,
            path_parameters=path_parameters,
            claims=claims,
            request_id=reply.request_id,
            stage=self._stack.stage,
        )
        started = time.monotonic()
        try:
            await self._run(route, event, reply)
        finally:
            log.info("%s %s %s %.0f ms", request.method, raw_path, reply.status, (time.monotonic() - started) * 1000)

    async def _run(self, route: Route, event: dict[str, Any], reply: _Reply) -> None:
        """Invoke the route's function and pass its reply on."""
        loop = asyncio.get_running_loop()
        parts: asyncio.Queue[Part] = asyncio.Queue()
        call = self._functions[route.function].invoke(json.dumps(event).encode("utf-8"), wait_s=route.timeout_s)
        self._threads.submit(_drain, call, loop, parts)
        limit = loop.time() + route.timeout_s
        while True:
            try:
                part = await asyncio.wait_for(parts.get(), max(0.0, limit - loop.time()))
            except TimeoutError:
                part = Failed(error_type="Sandbox.Timedout", message="The integration's time is over.")
            match part:
                case Started() if route.streaming:
                    await reply.start(part.status, part.headers)
                case Piece(data=data) if route.streaming:
                    await reply.send(data)
                case Buffered(payload=payload) if not route.streaming:
                    await self._pass_on(payload, reply)
                    return
                case Failed():
                    await self._fail(part, reply)
                    return
                case Started() | Buffered():
                    log.error("%s answers in the other form than its route's.", route.function)
                    await self._answer(reply, "INTEGRATION_FAILURE")
                    return
                case _:
                    await reply.end()
                    return

    async def _pass_on(self, payload: bytes, reply: _Reply) -> None:
        try:
            whole = reply_of(payload)
        except MalformedReply as error:
            log.error("The function's reply is malformed: %s.", error)
            await self._answer(reply, "INTEGRATION_FAILURE")
            return
        await reply.start(whole.status, whole.headers, length=len(whole.body))
        await reply.end(whole.body)

    async def _fail(self, failure: Failed, reply: _Reply) -> None:
        log.error("The function failed: %s: %s", failure.error_type, failure.message)
        if reply.status is not None:
            raise ConnectionAbortedError("The stream broke off.")  # the server then cuts the connection
        kind = {"Sandbox.Timedout": "INTEGRATION_TIMEOUT", "TooManyRequestsException": "THROTTLED"}
        await self._answer(
            reply,
            kind.get(failure.error_type, "INTEGRATION_FAILURE"),
            [("x-amzn-errortype", failure.error_type)],
        )

    async def _answer(self, reply: _Reply, kind: str, headers: Iterable[tuple[str, str]] = ()) -> None:
        answer = self._stack.gateway_replies.get(kind, _PLAIN_FAILURE)
        all_headers = [("content-type", "application/json"), *headers]
        await reply.start(answer.status, all_headers, length=len(answer.body))
        await reply.end(answer.body)


class _Reply:
    """One reply under way to a reader."""

    def __init__(self, send: Send, *, request_id: str) -> None:
        self.request_id = request_id
        self.status: int | None = None
        self._send = send

    async def start(self, status: int, headers: Iterable[tuple[str, str]], *, length: int | None = None) -> None:
        self.status = status
        encoded = [
            (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
            for name, value in headers
            if name.lower() not in ("content-length", "transfer-encoding")
        ]
        encoded.append((b"x-amzn-requestid", self.request_id.encode("ascii")))
        if length is not None and status not in (204, 304):
            encoded.append((b"content-length", str(length).encode("ascii")))
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    async def send(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": False})


def _drain(call: Iterator[Part], loop: asyncio.AbstractEventLoop, parts: asyncio.Queue[Part]) -> None:
    """Read a call to its end, whether or not somebody still listens."""
    try:
        for part in call:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(parts.put_nowait, part)
    except Exception as error:
        log.exception("The function can't be invoked.")
        failure = Failed(error_type=type(error).__name__, message=str(error))
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(parts.put_nowait, failure)


async def _body(receive: Receive) -> bytes | None:
    """The whole request body; None when it is larger than the gateway accepts."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_PAYLOAD_BYTES:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _comes_from_here(headers: MutableMapping[str, str]) -> bool:
    """Whether a request is not another site's: without a token it would act as the local user.

    A page on the web can make a browser send requests to this machine, under a name of its own (DNS rebinding) or
    with its origin in the header.
    """
    if urlsplit(f"//{headers.get('host', '')}").hostname not in LOOPBACK_NAMES:
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).hostname in LOOPBACK_NAMES


class GatewayServer:
    """The gateway on a port of this machine; 0 takes a free one."""

    def __init__(self, *, port: int, log_path: Path) -> None:
        """Take the port, without listening yet. Raises `PortTaken`."""
        self._socket = _listen(port)
        self.port = int(self._socket.getsockname()[1])
        self._log_handler = logging.FileHandler(log_path, encoding="utf-8")
        self._log_handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, gateway: Gateway) -> None:
        """Serve in a thread of its own, from the return on. Raises `LocalCloudError` when that does not begin."""
        config = uvicorn.Config(
            gateway,
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=STOP_PATIENCE_S,
            server_header=False,
        )
        self._server = server = uvicorn.Server(config)
        for name in ("uvicorn.error", log.name):
            logger = logging.getLogger(name)
            logger.addHandler(self._log_handler)
            logger.setLevel(logging.INFO)
            logger.propagate = False
        self._thread = threading.Thread(
            target=server.run, kwargs={"sockets": [self._socket]}, name="gateway", daemon=True
        )
        self._thread.start()
        limit = time.monotonic() + START_LIMIT_S
        while not server.started:
            if not self._thread.is_alive() or time.monotonic() > limit:
                raise LocalCloudError("The HTTP front did not start.")
            time.sleep(0.01)

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
        self._socket.close()
        for name in ("uvicorn.error", log.name):
            logging.getLogger(name).removeHandler(self._log_handler)
        self._log_handler.close()


def _listen(port: int) -> socket.socket:
    """A socket that names its protocol: asyncio sends small packets at once on such ones only, and else a reply's body
    waits 40 ms for the word that its head has come."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise PortTaken(
            f"Port {port} of 127.0.0.1 can't be used ({error.strerror}): choose another by --port."
        ) from error
    return listener
