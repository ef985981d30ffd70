from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from strata.errors import JobNotFound
from strata.jobs.events import EventFeed, sse_text, status_data
from strata.jobs.running import Progress
from strata.model.jobs import Counters, Job, JobEvent, JobStatus
from tests.support.factories import job
from tests.support.fake_clock import FakeClock
from tests.support.fake_jobs import FakeJobStore, FakeJobTable
from tests.support.fake_lock import FakeSessionLock


class Feed:
    """A feed on a queued job whose pauses run `meanwhile`."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.table = FakeJobTable(clock=self.clock)
        self.jobs = FakeJobStore(self.table)
        self.jobs.create(job())
        self.job = self.jobs.accept(job().job_id, session_id="docs", object_version=None, applied_seq=0)
        self.meanwhile: Callable[[], object] = lambda: None
        self.pauses = 0
        self.feed = EventFeed(jobs=self.jobs, sleep=self._sleep, monotonic=self.clock.monotonic)

    def _sleep(self, seconds: float) -> None:
        self.pauses += 1
        self.clock.sleep(seconds)
        self.meanwhile()

    def finish(self) -> Job:
        lease = FakeSessionLock(self.table).acquire(
            "docs", owner="a", lease=timedelta(seconds=60), applied_seq=0, fence=0
        )
        assert lease is not None
        self.jobs.finish(replace(self.job, status=JobStatus.DONE), lease)
        return self.job


@pytest.fixture
def feed() -> Feed:
    return Feed()


def test_what_is_there_comes_at_once(feed: Feed) -> None:
    news = feed.feed.after(feed.job.job_id, 0, wait_s=20)
    assert [event.seq for event in news.events] == [1]
    assert feed.pauses == 0


def test_what_comes_within_the_wait_ends_it(feed: Feed) -> None:
    feed.meanwhile = lambda: feed.pauses == 3 and feed.jobs.append_event(feed.job.job_id, "index_status", {"n": 2})
    news = feed.feed.after(feed.job.job_id, 1, wait_s=20)
    assert [event.data for event in news.events] == [{"n": 2}]
    assert feed.pauses == 3


@pytest.mark.parametrize(("wait_s", "waited_s"), [(0, 0), (1.5, 1.5), (1_000, 20)])
def test_the_wait_ends_with_nothing_after_its_time(feed: Feed, wait_s: float, waited_s: float) -> None:
    before = feed.clock.monotonic()
    news = feed.feed.after(feed.job.job_id, 1, wait_s=wait_s)
    assert news.events == ()
    assert not news.over
    assert feed.clock.monotonic() - before == pytest.approx(waited_s)


def test_a_job_that_ends_during_the_wait_comes_with_its_end(feed: Feed) -> None:
    feed.meanwhile = lambda: feed.pauses == 1 and feed.finish()
    news = feed.feed.after(feed.job.job_id, 1, wait_s=20)
    assert [event.name for event in news.events] == ["terminal"]
    assert news.job.status is JobStatus.DONE


def test_a_job_that_ends_between_the_two_reads_is_read_again(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    events_after = feed.jobs.events_after

    def ends_first(job_id: str, seq: int) -> list[JobEvent]:
        feed.finish()
        return events_after(job_id, seq)

    monkeypatch.setattr(feed.jobs, "events_after", ends_first)
    news = feed.feed.after(feed.job.job_id, 0, wait_s=20)
    assert news.events[-1].name == "terminal"
    assert news.job.status is JobStatus.DONE


def test_after_the_terminal_event_nobody_waits(feed: Feed) -> None:
    feed.finish()
    news = feed.feed.after(feed.job.job_id, 2, wait_s=20)
    assert news.over
    assert feed.pauses == 0


def test_an_unknown_job_is_not_found(feed: Feed) -> None:
    with pytest.raises(JobNotFound):
        feed.feed.after("job-unknown", 0, wait_s=0)


def test_status_data_names_status_phase_progress_and_counters() -> None:
    progress = Progress(phase="preparing", done_files=2, total_files=9, counters=Counters(cache_hit_files=2))
    assert status_data(JobStatus.RUNNING, progress) == {
        "status": "running",
        "phase": "preparing",
        "done_files": 2,
        "total_files": 9,
        "counters": {
            "indexed_files": 0,
            "failed_files": 0,
            "cache_hit_files": 2,
            "cache_miss_files": 0,
            "skipped_files": 0,
            "deleted_files": 0,
        },
    }


def test_events_read_as_server_sent_events() -> None:
    events = [JobEvent(seq=3, name="index_status", data={"a": 1}), JobEvent(seq=4, name="terminal", data={})]
    assert sse_text(events, terminal={"status": "done"}) == (
        'id: 3\nevent: index_status\ndata: {"a":1}\n\nid: 4\nevent: terminal\ndata: {"status":"done"}\n\nretry: 500\n\n'
    )


def test_no_events_read_as_a_comment() -> None:
    assert sse_text([], terminal={}) == ": nothing new\n\nretry: 500\n\n"


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\u2028b", "a\u0085b", "\x00", "data: x\n\nevent: evil", "\ud800"])
def test_no_text_can_break_a_frame(text: str) -> None:
    sent = sse_text([JobEvent(seq=1, name="index_status", data={"text": text})], terminal={})
    lines = sent.encode().decode().splitlines()
    assert lines[:2] == ["id: 1", "event: index_status"]
    assert json.loads(lines[2].removeprefix("data: ")) == {"text": text}
    assert lines[3:] == ["", "retry: 500", ""]
