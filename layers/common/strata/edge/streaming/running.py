"""The application's side: its start, its end, and each request between them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from strata.edge.streaming.asgi import Application, Message, Scope
from strata.edge.streaming.requests import InvalidEvent, request_of
from strata.edge.streaming.runtime_api import Invocation, ReplyStream, RuntimeApi, StreamBroken, prelude_of

log = logging.getLogger("strata.streaming")

DEADLINE_MARGIN_S = 1.0
CANCEL_GRACE_S = 0.3
SHUTDOWN_GRACE_S = 1.0
_BODILESS = frozenset({204, 304})


class IncompleteReply(Exception):
    """The application returned before its reply was complete."""


class DeadlineExceeded(Exception):
    """The application was still busy when the function's time was nearly over."""


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
            end_process(1)


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


def end_process(status: int) -> NoReturn:
    """End at once: the thread that waits for an invocation can't be interrupted."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
