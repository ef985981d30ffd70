"""JSON over HTTP as the model providers speak it: one POST, a time limit, and errors in our words."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from strata.errors import ConfigurationError, StrataError, TemporaryError

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

MAX_REPLY_BYTES = 16 * 1024 * 1024
_PASSING = frozenset({408, 409, 425, 429})
_MISCONFIGURED = frozenset({401, 402, 403, 404, 405})


def checked_url(url: str, variable: str) -> str:
    """The address without its final slash; raises `ConfigurationError` that names the variable."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ConfigurationError(f"{variable} must be an address like https://models.example.com/v1.")
    return url.rstrip("/")


def _pool() -> PoolManager:
    import urllib3

    return urllib3.PoolManager(maxsize=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonApi:
    """POSTs to one provider. `name` is what a person calls it; `key`, if any, goes as a bearer token.

    `unavailable` and `rejected` are what its failures are raised as. A redirect is not followed: the key is for this
    host alone.
    """

    name: str
    url: str
    key: str = field(repr=False)
    timeout_s: float
    unavailable: type[TemporaryError]
    rejected: type[StrataError]
    pool: PoolManager = field(default_factory=_pool, repr=False)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The reply's JSON. The limit holds for the whole reply, also for one that trickles.

        Raises `unavailable` for what passes by itself, `rejected` for a request that is refused for what it holds, and
        `ConfigurationError` for a wrong address, key or model; no message holds the key.
        """
        import urllib3

        deadline = time.monotonic() + self.timeout_s
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        try:
            response = self.pool.request(
                "POST",
                f"{self.url}{path}",
                body=json.dumps(body).encode(),
                headers=headers,
                timeout=urllib3.Timeout(connect=min(self.timeout_s, 3.0), read=self.timeout_s),
                redirect=False,
                retries=False,
                preload_content=False,
            )
            content = self._content(response, deadline)
        except urllib3.exceptions.LocationValueError as error:
            raise ConfigurationError(f"{self.name}: {self.url} is not an address that can be called.") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.unavailable(f"{self.name} can't be reached just now ({type(error).__name__}).") from error
        return self._decoded(response.status, content)

    def _content(self, response: BaseHTTPResponse, deadline: float) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            while part := response.read1(65_536):
                parts.append(part)
                size += len(part)
                if size > MAX_REPLY_BYTES:
                    raise self.rejected(f"{self.name} answers with more than {MAX_REPLY_BYTES:,} bytes.")
                if time.monotonic() > deadline:
                    raise self.unavailable(f"{self.name} did not answer within {self.timeout_s:g} s.")
        except BaseException:
            response.close()
            raise
        response.release_conn()
        return b"".join(parts)

    def _decoded(self, status: int, content: bytes) -> Any:
        if status in _PASSING or status >= 500:
            raise self.unavailable(f"{self.name} can't answer just now (HTTP {status}).")
        if status in _MISCONFIGURED or 300 <= status < 400:
            raise ConfigurationError(
                f"{self.name} refuses the call (HTTP {status}): check its address, key and model.{_said(content)}"
            )
        if status >= 400:
            raise self.rejected(f"{self.name} refuses the request (HTTP {status}).{_said(content)}")
        try:
            return json.loads(content)
        except ValueError as error:
            raise ConfigurationError(f"{self.name}: something answers at {self.url}, but not with JSON.") from error


def _said(content: bytes) -> str:
    """What the provider says about it, as a sentence behind a blank; empty where it says nothing."""
    try:
        said = json.loads(content)
    except ValueError:
        return ""
    if isinstance(said, dict):
        said = cast("dict[str, Any]", said)
        said = said.get("error") or said.get("message") or said.get("detail")
    if isinstance(said, dict):
        said = cast("dict[str, Any]", said).get("message")
    text = " ".join(said.split())[:200] if isinstance(said, str) else ""
    return f" It says: {text}" if text else ""
