"""The wire format of a streamed reply, read piece by piece."""

from __future__ import annotations

import base64
import io
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_local.invocations import Buffered, Ended, Failed, Invocation, Part, Piece, Started
from strata_local.streamed_replies import DELIMITER, MAX_PRELUDE_BYTES, BadReply, failure_of, parse_prelude, read_stream

PRELUDE = b'{"statusCode":200,"headers":{"content-type":"text/event-stream"}}'


def chunked(*chunks: bytes, trailers: bytes = b"") -> io.BytesIO:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return io.BytesIO(body + b"0\r\n" + trailers + b"\r\n")


def read(source: io.BytesIO) -> tuple[list[Part], Failed | None]:
    invocation = Invocation(b"{}", timeout_s=1)
    failure = read_stream(source, invocation)
    parts = []
    while (part := invocation.next_part(0)) is not None:
        parts.append(part)
    return parts, failure


def test_a_reply_is_its_prelude_and_its_pieces() -> None:
    parts, failure = read(chunked(PRELUDE + DELIMITER, b"one", b"two"))
    started = Started(status=200, headers=(("content-type", "text/event-stream"),))
    assert parts == [started, Piece(data=b"one"), Piece(data=b"two")]
    assert failure is None


def test_a_reply_without_a_body_is_its_prelude() -> None:
    parts, _ = read(chunked(b'{"statusCode":204}' + DELIMITER))
    assert parts == [Started(status=204, headers=())]


@given(cut=st.lists(st.integers(min_value=1, max_value=90), max_size=6))
def test_chunks_may_be_cut_anywhere(cut: list[int]) -> None:
    whole = PRELUDE + DELIMITER + b"the body, \0 with a NUL of its own"
    borders = sorted({min(border, len(whole)) for border in cut} | {0, len(whole)})
    pieces = [whole[start:end] for start, end in itertools.pairwise(borders) if end > start]
    parts, _ = read(chunked(*pieces))
    assert isinstance(parts[0], Started)
    body = b"".join(part.data for part in parts if isinstance(part, Piece))
    assert body == b"the body, \0 with a NUL of its own"


def test_an_error_in_the_trailers_is_the_end_of_the_reply() -> None:
    detail = {"errorType": "ValueError", "errorMessage": "boom", "stackTrace": []}
    body = base64.b64encode(json.dumps(detail).encode())
    trailers = b"Lambda-Runtime-Function-Error-Type: ValueError\r\nLambda-Runtime-Function-Error-Body: %s\r\n" % body
    parts, failure = read(chunked(PRELUDE + DELIMITER, b"one", trailers=trailers))
    assert len(parts) == 2
    assert failure == Failed(error_type="ValueError", message="boom", detail=detail)


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(io.BytesIO(b""), id="nothing"),
        pytest.param(io.BytesIO(b"5\r\nab"), id="cut inside a chunk"),
        pytest.param(io.BytesIO(b"2\r\nabXX"), id="a chunk without its end"),
        pytest.param(io.BytesIO(b"xyz\r\n"), id="no chunk size"),
        pytest.param(
            io.BytesIO(b"%x\r\n%s\r\n0\r\n" % (len(PRELUDE) + 8, PRELUDE + DELIMITER)), id="cut in the trailers"
        ),
        pytest.param(chunked(PRELUDE), id="no delimiter"),
        pytest.param(chunked(PRELUDE + b"\0" * 7), id="seven NULs"),
        pytest.param(chunked(b"{" + DELIMITER), id="a prelude that is no JSON"),
        pytest.param(chunked(b"[]" + DELIMITER), id="a prelude that is no object"),
        pytest.param(chunked(b'{"statusCode":"200"}' + DELIMITER), id="a status that is no number"),
        pytest.param(chunked(b'{"statusCode":999}' + DELIMITER), id="a status that does not exist"),
        pytest.param(chunked(b"x" * (MAX_PRELUDE_BYTES + 1)), id="no delimiter in the first 16 KB"),
        pytest.param(
            chunked(b'{"statusCode":200,"a":"' + b"x" * MAX_PRELUDE_BYTES + b'"}' + DELIMITER), id="delimiter too late"
        ),
    ],
)
def test_a_reply_that_breaks_the_protocol_is_refused(stream: io.BytesIO) -> None:
    with pytest.raises(BadReply):
        read(stream)


def test_cookies_and_repeated_headers_become_header_lines() -> None:
    started = parse_prelude(
        b'{"statusCode":200,"headers":{"a":"1"},"multiValueHeaders":{"v":["x","y"]},"cookies":["s=1","t=2"]}'
    )
    assert started.headers == (("a", "1"), ("v", "x"), ("v", "y"), ("set-cookie", "s=1"), ("set-cookie", "t=2"))


def test_trailers_without_an_error_are_no_failure() -> None:
    assert failure_of({"x": "1"}) is None


def test_a_failure_whose_body_cannot_be_read_keeps_its_type() -> None:
    failure = failure_of(
        {"lambda-runtime-function-error-type": "X", "lambda-runtime-function-error-body": "not base64!"}
    )
    assert failure == Failed(error_type="X", message="")


@pytest.mark.parametrize("last", [Buffered(payload=b""), Ended(), Failed(error_type="X", message="")])
def test_nothing_follows_the_last_part(last: Part) -> None:
    invocation = Invocation(b"{}", timeout_s=1)
    invocation.emit(last)
    invocation.emit(Piece(data=b"late"))
    assert invocation.next_part(0) == last
    assert invocation.next_part(0) is None
