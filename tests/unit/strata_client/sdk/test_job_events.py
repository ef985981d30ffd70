"""A job is followed to its end, whatever breaks on the way."""

from __future__ import annotations

import pytest

from strata_client import (
    StrataApiError,
    StrataClient,
    StreamBroken,
)
from tests.support.fake_api import (
    DROP,
    EVENTS,
    INDEXED,
    FakeApi,
    error_reply,
    job_view,
    sse,
    sse_reply,
)


def test_events_are_followed_over_replies_to_the_end(api: FakeApi, client: StrataClient, waits: list[float]) -> None:
    events = list(client.job_events("job-1"))

    assert [(event.seq, event.name) for event in events] == [(1, "index_status"), (2, "terminal")]
    first, second = api.asked("GET", EVENTS)
    assert "last-event-id" not in first.headers
    assert second.headers["last-event-id"] == "1"
    assert waits == [0.05], "the server's retry, not our own"


def test_a_break_loses_no_event_and_repeats_none(api: FakeApi, client: StrataClient) -> None:
    whole = [sse("index_status", {"phase": "preparing"}, n) for n in (1, 2, 3)]
    api.on(
        "GET",
        EVENTS,
        sse_reply(whole[0], whole[1][:20], cut=True),
        DROP,
        INDEXED,
        error_reply(503, "later", "Later."),
        sse_reply(whole[0] + whole[1]),  # a server that repeats what it was told has been seen
        sse_reply(whole[2] + sse("terminal", job_view(), 4)),
    )

    assert [event.seq for event in client.job_events("job-1")] == [1, 2, 3, 4]


def test_wait_for_gives_the_job_at_its_end(client: StrataClient) -> None:
    heard: list[str] = []

    job = client.wait_for("job-1", lambda event: heard.append(event.name))

    assert job["status"] == "done"
    assert heard == ["index_status", "terminal"]


def test_a_server_that_only_breaks_off_is_given_up(api: FakeApi, client: StrataClient, waits: list[float]) -> None:
    api.on("GET", EVENTS, sse_reply(b": hello\n\n", cut=True))

    with pytest.raises(StreamBroken):
        list(client.job_events("job-1"))

    assert len(waits) == 8
    assert waits[-1] > waits[0]


def test_an_unknown_job_is_not_waited_for(api: FakeApi, client: StrataClient) -> None:
    api.on("GET", EVENTS, error_reply(404, "job_not_found", "No such job."))

    with pytest.raises(StrataApiError, match="No such job"):
        list(client.job_events("job-1"))

    assert len(api.requests) == 1


def test_waiting_ends_at_its_time_limit(api: FakeApi, client: StrataClient) -> None:
    api.on("GET", EVENTS, sse_reply(b"retry: 200\n\n"))

    with pytest.raises(StreamBroken, match=r"job-1 has not ended after 0\.1 s"):
        client.wait_for("job-1", timeout_s=0.1)
