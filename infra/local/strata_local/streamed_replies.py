"""The wire format of what a process posts: a stream in HTTP's chunked coding, a prelude first, errors in trailers."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import BinaryIO

from strata_local.invocations import Failed, Invocation, Piece, Started

DELIMITER = b"\0" * 8
MAX_PRELUDE_BYTES = 16 * 1024


class BadReply(Exception):
    """What the process posted breaks the protocol."""


def read_stream(source: BinaryIO, invocation: Invocation) -> Failed | None:
    """Read a chunked reply to its end and emit its parts as they come, but for the last; the failure in its trailers.

    Raises `BadReply`.
    """
    head = b""
    started = False
    while chunk := read_chunk(source):
        if started:
            invocation.emit(Piece(data=chunk))
            continue
        head += chunk
        prelude, delimiter, rest = head.partition(DELIMITER)
        if delimiter and len(prelude) + len(delimiter) <= MAX_PRELUDE_BYTES:
            invocation.emit(parse_prelude(prelude))
            started = True
            if rest:
                invocation.emit(Piece(data=rest))
        elif len(head) > MAX_PRELUDE_BYTES:
            raise BadReply("The first 16 KB of the reply hold no prelude with its delimiter.")
    trailers = read_trailers(source)
    failure = failure_of(trailers)
    if not started and failure is None:
        raise BadReply("The reply ended before its prelude was complete.")
    return failure


def read_chunk(source: BinaryIO) -> bytes:
    """One chunk of HTTP's chunked coding; empty at the end. Raises `BadReply`."""
    line = source.readline(1024)
    try:
        size = int(line.split(b";")[0], 16)
    except ValueError:
        raise BadReply(f"The reply broke off: {line[:40]!r} is no chunk size.") from None
    if size == 0:
        return b""
    data = source.read(size)
    if len(data) != size or source.readline(3) != b"\r\n":
        raise BadReply("The reply broke off inside a chunk.")
    return data


def read_trailers(source: BinaryIO) -> dict[str, str]:
    """The header lines after the last chunk, by lower-case name. Raises `BadReply`."""
    trailers: dict[str, str] = {}
    while (line := source.readline(256 * 1024)) != b"\r\n":
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not line.endswith(b"\n"):
            raise BadReply("The reply broke off in its trailers.")
        trailers[name.strip().lower()] = value.strip()
    return trailers


def parse_prelude(text: bytes) -> Started:
    """Status and headers of a streamed reply. Raises `BadReply`.

    >>> parse_prelude(b'{"statusCode": 200, "headers": {"a": "1"}, "cookies": ["s=1"]}').headers
    (('a', '1'), ('set-cookie', 's=1'))
    """
    try:
        content = json.loads(text)
        status = content["statusCode"]
        headers = [(name, str(value)) for name, value in (content.get("headers") or {}).items()]
        headers += [
            (name, str(value)) for name, values in (content.get("multiValueHeaders") or {}).items() for value in values
        ]
        headers += [("set-cookie", str(cookie)) for cookie in content.get("cookies") or []]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadReply(f"The prelude is not valid: {type(error).__name__}: {error}.") from error
    if not isinstance(status, int) or not 100 <= status <= 599:
        raise BadReply(f"The prelude's statusCode is {status!r}.")
    return Started(status=status, headers=tuple(headers))


def failure_of(trailers: Mapping[str, str]) -> Failed | None:
    """The error that a stream's trailers tell of, if any."""
    error_type = trailers.get("lambda-runtime-function-error-type")
    if error_type is None:
        return None
    try:
        body = base64.b64decode(trailers.get("lambda-runtime-function-error-body", ""), validate=True)
    except binascii.Error:
        body = b""
    return failure_told(error_type, body)


def failure_told(error_type: str | None, body: bytes) -> Failed:
    """The failure that a process reports; a body that is no JSON object adds nothing."""
    try:
        detail = json.loads(body)
    except ValueError:
        detail = None
    if not isinstance(detail, dict):
        detail = {}
    return Failed(
        error_type=error_type or str(detail.get("errorType") or "Unhandled"),
        message=str(detail.get("errorMessage") or ""),
        detail=detail,
    )
