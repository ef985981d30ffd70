"""The events of a job as a poll."""

from __future__ import annotations

import pytest

from tests.support.indexing_cloud import Cloud, opened


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ({"after": "-1"}, {}),
        ({"after": "x"}, {}),
        ({"wait_s": "21"}, {}),
        ({"wait_s": "-1"}, {}),
        ({"wait_s": "nan"}, {}),
        ({}, {"Last-Event-ID": "x"}),
        ({}, {"Last-Event-ID": "-1"}),
    ],
)
def test_a_bad_question_after_events_is_422(cloud: Cloud, query: dict[str, str], headers: dict[str, str]) -> None:
    job = opened(cloud)["job"]
    reply = cloud.get(job["links"]["events"], query=query, headers=headers)
    assert (reply.status, reply.error_code) == (422, "invalid_request")


def test_events_that_do_not_come_end_with_a_comment(cloud: Cloud) -> None:
    job = opened(cloud)["job"]
    before = cloud.table.clock.monotonic()
    reply = cloud.get(job["links"]["events"], query={"wait_s": "3"})
    assert (reply.status, reply.body) == (200, ": nothing new\n\nretry: 500\n\n")
    assert cloud.table.clock.monotonic() - before == pytest.approx(3)
