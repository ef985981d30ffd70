"""Answers as typed events, however the network cuts them."""

from __future__ import annotations

import time

import pytest

from strata_client import (
    Citation,
    ClientError,
    Delta,
    Done,
    Meta,
    Sources,
    StrataApiError,
    StrataClient,
    StreamBroken,
)
from strata_client.events import AnswerCollector
from tests.support.fake_api import (
    ANSWER_TEXT,
    CITATIONS,
    QUERY,
    SOURCES,
    FakeApi,
    answer_events,
    json_reply,
    sse,
    sse_reply,
)


def test_an_answer_comes_as_typed_events(client: StrataClient) -> None:
    events = list(client.ask("shop", "why?", path_prefixes=["src/"]))

    assert [type(event) for event in events] == [Meta, Sources, Delta, Delta, Citation, Citation, Done]
    assert "".join(event.text for event in events if isinstance(event, Delta)) == ANSWER_TEXT
    collector = AnswerCollector("shop")
    for event in events:
        collector.add(event)
    answer = collector.answer()
    assert answer["answer"] == {"text": ANSWER_TEXT, "citations": CITATIONS, "grounded": True, "abstained": False}
    assert answer["sources"] == SOURCES
    assert answer["generation"] == 3


def test_an_answer_survives_any_cut_of_the_network(api: FakeApi, client: StrataClient) -> None:
    api.on("POST", QUERY, sse_reply(*(bytes([byte]) for byte in answer_events())))

    events = list(client.ask("shop", "why?"))

    assert "".join(event.text for event in events if isinstance(event, Delta)) == ANSWER_TEXT


def test_deltas_are_given_when_they_come(api: FakeApi, client: StrataClient) -> None:
    pieces = [sse("delta", {"text": str(n)}) for n in range(3)]
    api.on("POST", QUERY, sse_reply(*pieces, answer_events(), pause_s=0.15))
    started = time.monotonic()

    arrivals = [time.monotonic() - started for event in client.ask("shop", "why?") if isinstance(event, Delta)]

    assert arrivals[0] < 0.14
    assert arrivals[2] - arrivals[0] > 0.25


def test_an_error_in_the_stream_is_raised(api: FakeApi, client: StrataClient) -> None:
    failed = sse("error", {"code": "generator_unavailable", "message": "The chat model is away."})
    api.on("POST", QUERY, sse_reply(sse("delta", {"text": "So"}) + failed))

    events = client.ask("shop", "why?")

    assert next(events) == Delta("So")
    with pytest.raises(StrataApiError) as caught:
        next(events)
    assert caught.value.code == "generator_unavailable"


@pytest.mark.parametrize("cut", [True, False], ids=["connection lost", "closed in good form"])
def test_an_answer_without_its_end_is_not_taken_for_whole(api: FakeApi, client: StrataClient, cut: bool) -> None:
    api.on("POST", QUERY, sse_reply(sse("delta", {"text": "So"}), cut=cut))

    with pytest.raises(StreamBroken):
        list(client.ask("shop", "why?"))

    assert len(api.requests) == 1, "what has begun to answer is not asked again behind the caller's back"


@pytest.mark.parametrize("data", [b"not json", b"[]", b"{}", b"null"])
def test_an_event_that_can_not_be_read_is_a_clear_error(api: FakeApi, client: StrataClient, data: bytes) -> None:
    api.on("POST", QUERY, sse_reply(b"event: delta\ndata: " + data + b"\n\n"))

    with pytest.raises(ClientError, match="can't read"):
        list(client.ask("shop", "why?"))


def test_the_whole_answer_is_asked_for_as_json(api: FakeApi, client: StrataClient) -> None:
    api.on("POST", QUERY, json_reply({"answer": {"text": ANSWER_TEXT}}))

    assert client.answer("shop", "why?")["answer"]["text"] == ANSWER_TEXT
    assert api.requests[0].headers["accept"] == "application/json"
