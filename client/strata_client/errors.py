"""What can go wrong between a client and Strata.

ClientError
├── ApiUnreachable     nothing answers at the address
├── StreamBroken       a stream ended before its last event
├── PackingError       a folder can't become a snapshot
└── StrataApiError     the API answered with an error: status, code, message
"""

from __future__ import annotations


class ClientError(Exception):
    """Something went wrong on the client's side; `message` is one sentence for a person."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ApiUnreachable(ClientError):
    """Nothing answers at `url`."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"Nothing answers at {url} ({reason}).")
        self.url = url
        self.reason = reason


class StreamBroken(ClientError):
    """The connection ended before the stream's last event."""


class PackingError(ClientError):
    """The folder can't be sent as one snapshot."""


class StrataApiError(ClientError):
    """The API's own answer: `code` is stable, so branch on it (`session_not_found`, `invalid_query`, …).

    An error that comes inside a stream has the status 200 of its reply.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def __str__(self) -> str:
        return f"{self.message} [{self.status} {self.code}]"
