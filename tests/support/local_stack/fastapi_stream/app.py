"""A FastAPI application with a stream, to be served by the bootstrap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

app = FastAPI()


@app.get("/asynchronous")
async def asynchronous() -> StreamingResponse:
    async def pieces() -> AsyncIterator[str]:
        for number in range(3):
            yield f"data: {number}\n\n"
            await asyncio.sleep(0.1)

    return StreamingResponse(pieces(), media_type="text/event-stream")


@app.get("/synchronous")
def synchronous() -> StreamingResponse:
    def pieces() -> Iterator[str]:
        yield from ("data: 0\n\n", "data: 1\n\n")

    return StreamingResponse(pieces(), media_type="text/event-stream")


@app.get("/fails")
async def fails() -> None:
    raise ValueError("a secret detail")


@app.get("/items/{number}")
async def item(number: int) -> dict[str, int]:
    return {"number": number}
