"""When a failed call is made again, and after how long."""

from __future__ import annotations

import random
from dataclasses import dataclass

import httpx

from strata_client.error_replies import api_error
from strata_client.errors import ApiUnreachable, ClientError, StrataApiError

_NEVER_REACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_HOPELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.ReadTimeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Waits grow from `first_delay_s` twofold to `longest_delay_s`, each with jitter of up to half.

    A call that changes nothing, or that can be made twice, is repeated after 429, 503 and a lost connection; any
    other only when the server has certainly not begun with it (no connection, or 429). `Retry-After` is obeyed up
    to `longest_delay_s`. A server that is silent for the whole time limit is not asked again.
    """

    attempts: int = 4
    first_delay_s: float = 0.25
    longest_delay_s: float = 5.0

    def delay_s(self, attempt: int, retry_after: str | None = None) -> float:
        """How long to wait after the failed attempt of that number (from 1)."""
        if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
            return min(float(retry_after), self.longest_delay_s)
        longest = min(self.first_delay_s * 2.0 ** min(attempt - 1, 30), self.longest_delay_s)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret

    def after_error(self, error: httpx.TransportError, url: str, attempt: int, *, repeatable: bool) -> float:
        """The wait before the next attempt; raises `ApiUnreachable` when there is none."""
        worth_it = not isinstance(error, _HOPELESS) and (repeatable or isinstance(error, _NEVER_REACHED))
        if worth_it and attempt < self.attempts:
            return self.delay_s(attempt)
        raise ApiUnreachable(url, reason_of(error)) from error

    def after_reply(self, response: httpx.Response, attempt: int, *, repeatable: bool) -> float:
        """The wait before the next attempt; raises `StrataApiError` when there is none. The body is read already."""
        worth_it = response.status_code == 429 or (response.status_code == 503 and repeatable)
        if worth_it and attempt < self.attempts:
            return self.delay_s(attempt, response.headers.get("retry-after"))
        raise refusal(response)


def refusal(response: httpx.Response) -> StrataApiError:
    return api_error(response.status_code, response.content)


def reason_of(error: httpx.TransportError) -> str:
    """The cause in a few words."""
    if isinstance(error, httpx.ConnectError):
        return str(error) or "no connection"
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    return str(error) or type(error).__name__


def checked_url(api_url: str) -> str:
    """The address without a final slash; raises `ClientError` when it is not one."""
    try:
        parsed = httpx.URL(api_url.strip())
    except httpx.InvalidURL as error:
        raise ClientError(f"{api_url!r} is not an address: {error}.") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ClientError(f"{api_url!r} is not an address; it starts with http:// or https://.")
    return str(parsed).rstrip("/")


def checked_token(token: str | None) -> str | None:
    """The token without blanks around it; raises `ClientError` when no header can carry it."""
    token = (token or "").strip()
    if not all(33 <= ord(character) <= 126 for character in token):
        raise ClientError("The token holds characters that a token can't have; copy it again.")
    return token or None


def is_loopback(url: str) -> bool:
    """Whether the address is this machine: no proxy stands in between, whatever the environment says."""
    host = httpx.URL(url).host
    return host in ("localhost", "::1") or host.startswith("127.")
