"""What is tried again, how often, and what never."""

from __future__ import annotations

import socket
import time

import pytest

from strata_client import (
    ApiUnreachable,
    ClientError,
    Done,
    RetryPolicy,
    StrataApiError,
    StrataClient,
)
from tests.support.fake_api import (
    DROP,
    QUERY,
    FakeApi,
    Reply,
    answer_events,
    error_reply,
    job_view,
    json_reply,
    sse_reply,
)


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(error_reply(429, "slow_down", "Slow down."), id="429"),
        pytest.param(error_reply(503, "store_unavailable", "Later."), id="503"),
        pytest.param(DROP, id="lost connection"),
    ],
)
def test_what_changes_nothing_is_tried_again(
    api: FakeApi, client: StrataClient, waits: list[float], failure: Reply
) -> None:
    api.on("GET", "/api/rag/jobs/job-1", failure, failure, json_reply(job_view()))
    api.on("POST", QUERY, failure, sse_reply(answer_events()))
    api.on(
        "POST",
        "/api/rag/sessions/shop/retrieve",
        failure,
        json_reply({"session_id": "shop", "generation": 1, "embedding_model": "m", "rows": []}),
    )

    assert client.job("job-1")["status"] == "done"
    assert isinstance(list(client.ask("shop", "why?"))[-1], Done)
    assert client.retrieve("shop", "retry")["rows"] == []
    assert len(waits) == 4
    assert all(0 < wait <= 5 for wait in waits)


def test_retry_after_is_obeyed_up_to_the_longest_wait(api: FakeApi, client: StrataClient, waits: list[float]) -> None:
    api.on(
        "GET",
        "/health",
        error_reply(503, "later", "Later.", **{"retry-after": "2"}),
        error_reply(503, "later", "Later.", **{"retry-after": "3600"}),
        json_reply({"status": "ok"}),
    )

    client.health()

    assert waits == [2.0, 5.0]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        pytest.param(error_reply(503, "store_unavailable", "Later."), StrataApiError, id="503 may have begun"),
        pytest.param(DROP, ApiUnreachable, id="a lost connection may have begun"),
    ],
)
def test_what_may_have_begun_is_not_sent_twice(
    api: FakeApi, client: StrataClient, failure: Reply, expected: type[ClientError]
) -> None:
    path = "/api/rag/sessions/shop/changes"
    api.on("POST", path, failure)

    with pytest.raises(expected):
        client.changes("shop", [{"op": "delete", "path": "a.md"}])

    assert len(api.asked("POST", path)) == 1


def test_a_change_that_was_turned_away_is_sent_again(api: FakeApi, client: StrataClient) -> None:
    path = "/api/rag/sessions/shop/changes"
    api.on("POST", path, error_reply(429, "slow_down", "Slow down."), json_reply({"job": job_view("queued")}, 202))

    assert client.changes("shop", [{"op": "delete", "path": "a.md"}])["status"] == "queued"


def test_it_gives_up_after_the_last_attempt_with_the_servers_reason(api: FakeApi, waits: list[float]) -> None:
    api.on("GET", "/health", error_reply(503, "store_unavailable", "Later."))

    with (
        StrataClient(api.url, retry=RetryPolicy(attempts=3), sleep=waits.append) as client,
        pytest.raises(StrataApiError, match=r"Later\. \[503 store_unavailable\]"),
    ):
        client.health()

    assert len(api.requests) == 3
    assert len(waits) == 2


def test_nothing_there_is_told_with_the_address(waits: list[float]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with StrataClient(url, sleep=waits.append) as client, pytest.raises(ApiUnreachable) as caught:
        client.sessions()

    assert caught.value.url == url
    assert len(waits) == 3


def test_a_silent_server_is_not_asked_again(api: FakeApi) -> None:
    def sleep_long(_: object) -> Reply:
        time.sleep(0.5)
        return json_reply({})

    api.on("GET", "/health", sleep_long)
    with StrataClient(api.url, timeout_s=0.1) as client, pytest.raises(ApiUnreachable, match="no answer in time"):
        client.health()

    assert len(api.requests) == 1
