"""A plain ASGI application that does what its path asks for."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

STARTS: list[float] = []


async def app(scope: Message, receive: Receive, send: Send) -> None:  # noqa: PLR0915 - one case after another
    if scope["type"] == "lifespan":
        await receive()
        STARTS.append(time.time())
        scope["state"]["greeting"] = "hello"
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    case = scope["path"].rpartition("/")[2]
    match case:
        case "nothing":
            await start(send, 204)
            await end(send)
        case "denied":
            await start(send, 401, [(b"www-authenticate", b"Bearer")])
            await end(send, b'{"error": "sign in"}')
        case "missing":
            await start(send, 404)
            await end(send, b"not here")
        case "moved":
            await start(send, 302, [(b"location", b"/stream/tokens")])
            await end(send)
        case "tokens":
            await start(send, 200, [(b"content-type", b"text/event-stream")])
            for number in range(4):
                await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
                await asyncio.sleep(0.2)
            await end(send)
        case "raises-before":
            raise ValueError("a secret detail")
        case "raises-after":
            await start(send, 200)
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            raise ValueError("a secret detail")
        case "raises-when-complete":
            await start(send, 500)
            await end(send, b"an honest 500")
            raise ValueError("a secret detail")
        case "crashes-before":
            os._exit(7)
        case "crashes-after":
            await start(send, 200)
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            os._exit(7)
        case "returns-early":
            await start(send, 200)
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        case "never-ends":
            await start(send, 200, [(b"content-type", b"text/event-stream")])
            await send({"type": "http.response.body", "body": b"data: begun\n\n", "more_body": True})
            await asyncio.sleep(60)
        case "never-starts":
            await asyncio.sleep(60)
        case "blocks-a-thread":
            await asyncio.to_thread(time.sleep, 60)
        case "huge-headers":
            await start(send, 200, [(b"x-huge", b"x" * 20_000)])
            await end(send)
        case "cookies":
            await start(send, 200, [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"), (b"vary", b"a"), (b"vary", b"b")])
            await end(send)
        case _:
            await describe(scope, receive, send)


async def describe(scope: Message, receive: Receive, send: Send) -> None:
    """Everything that the application can know about the request."""
    message = await receive()
    document = {
        "method": scope["method"],
        "path": scope["path"],
        "query": scope["query_string"].decode(),
        "headers": [[name.decode(), value.decode()] for name, value in scope["headers"]],
        "body": message["body"].decode("latin-1"),
        "claims": scope["aws.event"]["requestContext"]["authorizer"],
        "request_id": scope["aws.context"].aws_request_id,
        "remaining_ms": scope["aws.context"].get_remaining_time_in_millis(),
        "deadline_ms": scope["strata.deadline_ms"],
        "state": scope["state"],
        "starts": len(STARTS),
        "trace": os.environ.get("_X_AMZN_TRACE_ID"),
        "pid": os.getpid(),
    }
    await start(send, 200, [(b"content-type", b"application/json")])
    await end(send, json.dumps(document).encode())


async def start(send: Send, status: int, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers or []})


async def end(send: Send, body: bytes = b"") -> None:
    await send({"type": "http.response.body", "body": body, "more_body": False})
