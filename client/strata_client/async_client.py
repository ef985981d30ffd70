"""The asynchronous twin of `StrataClient`: the same methods, to be awaited or iterated with `async for`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack, cast

import httpx

from strata_client import wire
from strata_client.calls import (
    MAX_STREAM_BREAKS,
    NO_CONTENT,
    NO_MORE_EVENTS,
    STREAM_HEADERS,
    decoded,
    files_path,
    job_path,
    links_path,
    next_poll_s,
    passing,
    request_headers,
    require_events,
    session_body,
    session_path,
    upload_part,
    upload_timeout,
)
from strata_client.errors import ApiUnreachable, StrataApiError, StreamBroken
from strata_client.events import AskEvent, Done, JobEvent, ask_event, job_event
from strata_client.retrying import RetryPolicy, checked_token, checked_url, is_loopback, reason_of
from strata_client.sse import SseParser


class AsyncStrataClient:
    """`StrataClient` for asynchronous programs; each method keeps the promise of its namesake there."""

    def __init__(
        self,
        api_url: str,
        token: str | None = None,
        *,
        timeout_s: float = 60.0,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.api_url = checked_url(api_url)
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        self._http = httpx.AsyncClient(
            headers=request_headers(checked_token(token)),
            timeout=httpx.Timeout(timeout_s, connect=5.0),
            trust_env=not is_loopback(self.api_url),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncStrataClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    # --- sessions and their content ---------------------------------------------------------------------------------

    async def create_session(
        self,
        session_id: str | None = None,
        *,
        project_id: str | None = None,
        format: wire.ArchiveFormat | None = None,
        readers: Sequence[str] | None = None,
        files: Sequence[wire.FileUpload] | None = None,
        reindex: bool = False,
    ) -> wire.CreatedSession:
        """Open a session, or a new snapshot of one that is there.

        With `files` (5 MB at most) the snapshot is on its way; otherwise send the archive with `upload`. `reindex`
        builds a new index beside the one that answers meanwhile; `roll_back` goes back to that.
        """
        body = session_body(session_id, project_id, format, readers, files, reindex=reindex)
        return cast("wire.CreatedSession", await self._call("POST", "/api/rag/sessions", body=body))

    async def upload(self, form: wire.UploadForm, archive: Path, on_bytes: Callable[[int], None] | None = None) -> None:
        """Send the archive to the store by the presigned form, as a stream; the job starts when it has arrived.

        `on_bytes` is told how many bytes of the file have gone out. The store gets no token. Safe to repeat.
        """
        timeout, trust_env = upload_timeout(), not is_loopback(form["url"])
        with archive.open("rb") as file:
            async with httpx.AsyncClient(timeout=timeout, trust_env=trust_env) as store:
                attempt = 0
                while True:
                    attempt += 1
                    try:
                        response = await store.post(
                            form["url"], data=form["fields"], files={"file": upload_part(form, file, on_bytes)}
                        )
                    except httpx.TransportError as error:
                        delay_s = self._retry.after_error(error, form["url"], attempt, repeatable=True)
                    else:
                        if response.is_success:
                            return
                        delay_s = self._retry.after_reply(response, attempt, repeatable=True)
                    await self._sleep(delay_s)

    async def changes(self, session_id: str, changes: Sequence[wire.Change]) -> wire.JobView:
        """Add, replace or delete files; jobs of a session run in the order in which they were accepted."""
        path = session_path(session_id, "/changes")
        return cast("wire.JobView", (await self._call("POST", path, body={"changes": list(changes)}))["job"])

    async def roll_back(self, session_id: str) -> wire.JobView:
        """Go back to the index before the present one; a second time undoes that. The job may end in an error."""
        return cast("wire.JobView", (await self._call("POST", session_path(session_id, "/rollback")))["job"])

    async def sessions(self) -> list[wire.SessionView]:
        """The sessions that the caller may read."""
        return cast("list[wire.SessionView]", (await self._call("GET", "/api/rag/sessions"))["sessions"])

    async def session(self, session_id: str) -> wire.SessionView:
        return cast("wire.SessionView", await self._call("GET", session_path(session_id)))

    async def set_readers(self, session_id: str, readers: Sequence[str]) -> wire.SessionView:
        """Who reads the session besides its owner, from now on: `user:…` and `group:…`."""
        body = {"readers": list(readers)}
        return cast("wire.SessionView", await self._call("PATCH", session_path(session_id), body=body, repeatable=True))

    async def delete_session(self, session_id: str) -> None:
        """Delete the session with everything that belongs to it. Readers find nothing when this returns."""
        await self._call("DELETE", session_path(session_id))

    async def files(self, session_id: str) -> AsyncIterator[wire.IndexedFile]:
        """Every file of the session that the caller may read, whole, in the order of the paths, page by page."""
        after = ""
        while True:
            page = await self._call("GET", files_path(session_id, after))
            for file in cast("list[wire.IndexedFile]", page["files"]):
                yield file
            if page["next"] is None:
                return
            after = page["next"]

    async def drift(self, session_id: str) -> wire.DriftView:
        """Files and symbols that the session's documents name and nothing in it defines."""
        return cast("wire.DriftView", await self._call("GET", session_path(session_id, "/drift")))

    async def links(self, session_id: str, name: str) -> wire.LinksView:
        """What a file or a symbol of the session uses, and what uses it."""
        return cast("wire.LinksView", await self._call("GET", links_path(session_id, name)))

    # --- jobs -------------------------------------------------------------------------------------------------------

    async def jobs(self, session_id: str) -> list[wire.JobView]:
        """The session's jobs, newest first."""
        return cast("list[wire.JobView]", (await self._call("GET", session_path(session_id, "/jobs")))["jobs"])

    async def job(self, job_id: str) -> wire.JobView:
        return cast("wire.JobView", await self._call("GET", job_path(job_id)))

    async def failures(self) -> wire.FailureList:
        """The jobs that failed and the uploads that could not become a job, in every session that the caller reads."""
        return cast("wire.FailureList", await self._call("GET", "/api/rag/jobs?status=failed"))

    async def cancel_job(self, job_id: str) -> wire.JobView:
        """End a job before its commit. One that runs is `cancelled` a moment later: `wait_for` tells."""
        return cast("wire.JobView", (await self._call("POST", job_path(job_id, "/cancel")))["job"])

    async def retry_job(self, failed_id: str) -> wire.JobView:
        """A new job from the upload of a failed job, or of a dead letter."""
        return cast("wire.JobView", (await self._call("POST", job_path(failed_id, "/retry")))["job"])

    async def job_events(
        self, job_id: str, *, after: int = 0, wait_s: int = 10, timeout_s: float | None = None
    ) -> AsyncIterator[JobEvent]:
        """The job's events after number `after`, as they happen, up to the terminal one.

        Each reply ends after `wait_s` seconds at most; the next one goes on after the last event seen, and so does
        the first one after a lost connection, so no event is missed or given twice. Raises `StreamBroken` when
        `timeout_s` is over before the job is.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        breaks = 0
        while True:
            parser = SseParser()
            try:
                async with self._stream(
                    "GET",
                    job_path(job_id, "/events"),
                    params={"wait_s": wait_s},
                    headers={"Last-Event-ID": str(after)} if after else {},
                ) as response:
                    if response.status_code == NO_MORE_EVENTS:
                        return
                    async for chunk in response.aiter_bytes():
                        for event in map(job_event, parser.feed(chunk)):
                            if event.seq <= after:
                                continue
                            after, breaks = event.seq, 0
                            yield event
                            if event.ended:
                                return
                delay_s = next_poll_s(parser.retry_ms)
            except (StreamBroken, ApiUnreachable, StrataApiError) as error:
                breaks += 1
                if breaks > MAX_STREAM_BREAKS or not passing(error):
                    raise
                delay_s = self._retry.delay_s(breaks)
            if deadline is not None and time.monotonic() + delay_s > deadline:
                raise StreamBroken(f"The job {job_id} has not ended after {timeout_s:g} s; it goes on without us.")
            await self._sleep(delay_s)

    async def wait_for(
        self, job_id: str, on_event: Callable[[JobEvent], None] | None = None, *, timeout_s: float | None = None
    ) -> wire.JobView:
        """The job at its end, whatever that is: look at `status`."""
        async for event in self.job_events(job_id, timeout_s=timeout_s):
            if on_event:
                on_event(event)
            if event.ended:
                return cast("wire.JobView", event.data)
        raise StreamBroken(f"The events of {job_id} ended without the job's end.")

    # --- questions --------------------------------------------------------------------------------------------------

    async def ask(
        self, session_id: str, question: str, **options: Unpack[wire.SearchOptions]
    ) -> AsyncIterator[AskEvent]:
        """The answer as it is written: `Meta`, `Sources`, `Delta`s and `Citation`s, `Done` at the end.

        An answer that can't be given ends with `StrataApiError`, a lost connection with `StreamBroken`.
        """
        body = {"question": question, **options}
        parser = SseParser()
        async with self._stream("POST", session_path(session_id, "/query"), body=body) as response:
            async for chunk in response.aiter_bytes():
                for event in map(ask_event, parser.feed(chunk)):
                    if event is not None:
                        yield event
                    if isinstance(event, Done):
                        return
        raise StreamBroken("The connection ended before the answer did; ask again.")

    async def answer(self, session_id: str, question: str, **options: Unpack[wire.SearchOptions]) -> wire.AnswerView:
        """The whole answer at once."""
        path = session_path(session_id, "/query")
        return cast(
            "wire.AnswerView", await self._call("POST", path, body={"question": question, **options}, repeatable=True)
        )

    async def retrieve(
        self, session_id: str, query: str, **options: Unpack[wire.RetrieveOptions]
    ) -> wire.RetrievedView:
        """The ranked chunks, without an answer."""
        path = session_path(session_id, "/retrieve")
        return cast(
            "wire.RetrievedView", await self._call("POST", path, body={"query": query, **options}, repeatable=True)
        )

    async def health(self) -> dict[str, Any]:
        return cast("dict[str, Any]", await self._call("GET", "/health"))

    # --- the calls themselves ---------------------------------------------------------------------------------------

    async def _call(self, method: str, path: str, *, body: object = None, repeatable: bool = False) -> Any:
        repeatable = repeatable or method == "GET"
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._http.request(method, self.api_url + path, json=body)
            except httpx.TransportError as error:
                delay_s = self._retry.after_error(error, self.api_url, attempt, repeatable=repeatable)
            else:
                if response.is_success:
                    return None if response.status_code == NO_CONTENT else decoded(response, self.api_url)
                delay_s = self._retry.after_reply(response, attempt, repeatable=repeatable)
            await self._sleep(delay_s)

    @asynccontextmanager
    async def _stream(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: dict[str, int] | None = None,
        headers: dict[str, str] | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """A reply whose events are still to come; repeated only while not one byte of it has been read."""
        request = self._http.build_request(
            method, self.api_url + path, json=body, params=params, headers={**STREAM_HEADERS, **(headers or {})}
        )
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._http.send(request, stream=True)
                if not response.is_success:
                    await response.aread()
            except httpx.TransportError as error:
                delay_s = self._retry.after_error(error, self.api_url, attempt, repeatable=True)
            else:
                if response.is_success:
                    break
                delay_s = self._retry.after_reply(response, attempt, repeatable=True)
            await self._sleep(delay_s)
        try:
            require_events(response, self.api_url)
            yield response
        except httpx.TransportError as error:
            raise StreamBroken(f"The connection to {self.api_url} broke off ({reason_of(error)}).") from error
        finally:
            await response.aclose()
