"""The asynchronous client is a twin of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from strata_client import (
    AsyncStrataClient,
    Done,
    StrataApiError,
    StrataClient,
)
from tests.support.fake_api import (
    DROP,
    EVENTS,
    INDEXED,
    FakeApi,
    Reply,
    job_view,
    json_reply,
    sse,
    sse_reply,
)


def test_the_asynchronous_client_keeps_the_same_promises(api: FakeApi, tmp_path: Path) -> None:
    archive = tmp_path / "snapshot.tar.gz"
    archive.write_bytes(b"all of it")
    whole = [sse("index_status", {}, n) for n in (1, 2)]
    api.on("GET", EVENTS, sse_reply(whole[0], cut=True), sse_reply(whole[1] + sse("terminal", job_view(), 3)))
    api.on("POST", "/store", Reply(status=503), Reply(status=204))
    api.on("GET", "/health", DROP, json_reply({"status": "ok"}))

    async def no_wait(_: float) -> None:
        await asyncio.sleep(0)

    async def everything() -> list[Any]:
        async with AsyncStrataClient(api.url, "secret", sleep=no_wait) as client:
            form = (await client.create_session("shop"))["upload"]
            assert form is not None
            await client.upload(form, archive)
            job = await client.wait_for("job-1")
            asked = [event async for event in client.ask("shop", "why?")]
            with pytest.raises(StrataApiError, match="There is no GET"):
                await client.session("other")
            calls: list[Awaitable[Any]] = [
                client.health(),
                client.sessions(),
                client.jobs("shop"),
                client.drift("shop"),
                client.links("shop", "place"),
                client.job("job-1"),
                client.retrieve("shop", "retry"),
                client.changes("shop", [{"op": "delete", "path": "a.md"}]),
            ]
            indexed = {file["path"]: file["text"] async for file in client.files("shop")}
            assert indexed == INDEXED
            return [job, asked, *[await call for call in calls]]

    job, asked, health, *_ = asyncio.run(everything())

    assert job["status"] == "done"
    assert isinstance(asked[-1], Done)
    assert health == {"status": "ok"}
    assert [request.form()["file"] for request in api.asked("POST", "/store")] == [b"all of it"] * 2
    assert api.asked("GET", EVENTS)[1].headers["last-event-id"] == "1"


def test_the_two_clients_have_the_same_methods() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(AsyncStrataClient) == public(StrataClient)
