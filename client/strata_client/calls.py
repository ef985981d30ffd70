"""What the two clients share: paths, headers, bodies, and the reading of replies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, cast
from urllib.parse import quote

import httpx

from strata_client import wire
from strata_client.errors import ClientError, StrataApiError

USER_AGENT = "strata-client/0.1"
MAX_STREAM_BREAKS = 8
"""How often in a row a job's events may break off without a new event before it is an error."""

_SESSION_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
STREAM_HEADERS = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}


def request_headers(token: str | None) -> dict[str, str]:
    headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
    return {**headers, "Authorization": f"Bearer {token}"} if token else headers


def session_path(session_id: str, rest: str = "") -> str:
    """Raises `ClientError` for what can't be a session's name: with a slash or dots alone it would be another route."""
    if not _SESSION_NAME.fullmatch(session_id):
        raise ClientError(
            f"{session_id!r} is no session's name: 1 to 100 letters, digits, dots, dashes and underscores, the first a "
            "letter or a digit."
        )
    return f"/api/rag/sessions/{quote(session_id, safe='')}{rest}"


def files_path(session_id: str, after: str) -> str:
    """The page of files behind a path; the first one without."""
    return session_path(session_id, f"/files?after={quote(after, safe='')}" if after else "/files")


def links_path(session_id: str, name: str) -> str:
    return session_path(session_id, f"/links?name={quote(name, safe='')}")


def job_path(job_id: str, rest: str = "") -> str:
    return f"/api/rag/jobs/{quote(job_id, safe='')}{rest}"


def session_body(
    session_id: str | None,
    project_id: str | None,
    format: str | None,
    readers: Sequence[str] | None,
    files: Sequence[wire.FileUpload] | None,
    *,
    reindex: bool = False,
) -> dict[str, object]:
    """The request's body, without what was not said."""
    said: dict[str, object | None] = {
        "session_id": session_id,
        "project_id": project_id,
        "format": format,
        "readers": None if readers is None else list(readers),
        "files": None if files is None else list(files),
        "reindex": True if reindex else None,
    }
    return {name: value for name, value in said.items() if value is not None}


def passing(error: ClientError) -> bool:
    """Whether a stream that failed so is worth opening again."""
    return not isinstance(error, StrataApiError) or error.status in (429, 502, 503, 504)


def next_poll_s(retry_ms: int | None) -> float:
    """The wait before the next long poll: what the server asked for, between 50 ms and 30 s."""
    return min(max((500 if retry_ms is None else retry_ms) / 1000, 0.05), 30.0)


def upload_timeout() -> httpx.Timeout:
    return httpx.Timeout(300.0, connect=5.0)


def upload_part(
    form: wire.UploadForm, file: BinaryIO, on_bytes: Callable[[int], None] | None
) -> tuple[str, BinaryIO, str]:
    """The form's last part: name, content, type. The type is the one that the form was signed for."""
    content_type = form["fields"].get("Content-Type", "application/octet-stream")
    counted = file if on_bytes is None else cast("BinaryIO", _CountedFile(file, on_bytes))
    return form["key"].rpartition("/")[2], counted, content_type


class _CountedFile:
    """A file that says how much of it has been read; a seek back counts back."""

    def __init__(self, file: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        self._file = file
        self._on_bytes = on_bytes

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._on_bytes(self._file.tell())
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def fileno(self) -> int:
        return self._file.fileno()


def decoded(response: httpx.Response, api_url: str) -> Any:
    """The reply's JSON; raises `ClientError` when something else than Strata answers there."""
    try:
        return response.json()
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ClientError(f"Something answers at {api_url}, but it is not Strata; check the address.") from error


NO_CONTENT = 204
NO_MORE_EVENTS = 204
"""What the API says to a caller who knows a job's last event already."""


def require_events(response: httpx.Response, api_url: str) -> None:
    if response.status_code != NO_MORE_EVENTS and not response.headers.get("content-type", "").startswith(
        "text/event-stream"
    ):
        raise ClientError(f"Something answers at {api_url}, but not with a stream of events; check the address.")
