from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_client.sse import SseEvent, SseParser


def parsed(*chunks: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"data: hi\n\n", [SseEvent("message", "hi", "")], id="the name is `message` when none is given"),
        pytest.param(b"event: x\r\ndata: hi\r\n\r\n", [SseEvent("x", "hi", "")], id="CRLF"),
        pytest.param(b"event: x\rdata: hi\r\r", [SseEvent("x", "hi", "")], id="CR alone"),
        pytest.param(b"data: a\ndata: b\ndata:\n\n", [SseEvent("message", "a\nb\n", "")], id="many data lines"),
        pytest.param(b"data:  two\n\n", [SseEvent("message", " two", "")], id="one blank after the colon is cut"),
        pytest.param(b"data\n\n", [SseEvent("message", "", "")], id="a field without a colon is empty"),
        pytest.param(b": beat\n\n:\n\ndata: a\n\n", [SseEvent("message", "a", "")], id="comments say nothing"),
        pytest.param(b"event: x\n\ndata: a\n\n", [SseEvent("message", "a", "")], id="no data, no event, no name left"),
        pytest.param(
            b"id: 7\ndata: a\n\ndata: b\n\n",
            [SseEvent("message", "a", "7"), SseEvent("message", "b", "7")],
            id="an id holds until the next one",
        ),
        pytest.param(b"id: 7\0\ndata: a\n\n", [SseEvent("message", "a", "")], id="an id with NUL is none"),
        pytest.param(b"foo: bar\ndata: a\n\n", [SseEvent("message", "a", "")], id="unknown fields are passed over"),
        pytest.param(b"data: a\n", [], id="what is unfinished at the end was no event"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [SseEvent("message", "a", "")], id="a byte-order mark is not text"),
        pytest.param(
            "data: a\u2028b\x85\n\n".encode(), [SseEvent("message", "a\u2028b\x85", "")], id="other line ends are text"
        ),
        pytest.param(b"data: \xff\n\n", [SseEvent("message", "\ufffd", "")], id="broken UTF-8 is replaced"),
    ],
)
def test_a_stream_is_read_as_the_standard_says(stream: bytes, expected: list[SseEvent]) -> None:
    assert parsed(stream) == expected
    assert parsed(*(bytes([byte]) for byte in stream)) == expected, "byte by byte"


LINES = st.sampled_from(
    [
        "event: delta",
        'data: {"text": "Привет 🌍"}',
        "data: \u2028",
        "data",
        "id: 12",
        ": beat",
        "retry: 250",
        "",
        "",
        "\ufeff",
    ]
)


@given(lines=st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r\n", "\r"])), max_size=30), data=st.data())
def test_events_do_not_depend_on_where_the_network_cuts(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    stream = "".join(line + end for line, end in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    assert parsed(*chunks) == parsed(stream)


def test_the_id_to_go_on_from_is_that_of_a_whole_event() -> None:
    parser = SseParser()
    parser.feed(b"id: 4\ndata: a\n\nid: 5\ndata: b\n")

    assert parser.last_event_id == "4", "event 5 has not come whole; it must be asked for again"


@pytest.mark.parametrize(
    ("line", "expected"), [(b"retry: 250\n", 250), (b"retry: soon\n", None), (b"retry: -1\n", None)]
)
def test_retry_takes_digits_only(line: bytes, expected: int | None) -> None:
    parser = SseParser()
    parser.feed(line)

    assert parser.retry_ms == expected


def test_a_large_event_in_small_pieces_takes_linear_time() -> None:
    piece, count = b"x" * 64, 30_000

    (event,) = parsed(b"data: ", *([piece] * count), b"\n\n")

    assert len(event.data) == len(piece) * count
