"""One holder at a time: what follows one that was killed, paused, overtaken or not heard."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from strata.errors import (
    LockLost,
    StaleFence,
    StoreUnavailable,
)
from strata.jobs.running import Progress, ReportProgress
from strata.model.jobs import Job, JobReport, Lease
from tests.support.factories import job_id
from tests.support.fake_workers import FakeRunner
from tests.support.office import SESSION, Killed, Office, worked


def test_a_worker_that_finds_the_lock_taken_leaves(office: Office) -> None:
    office.accept(1)
    holder = office.lock.acquire(SESSION, owner="x", lease=timedelta(seconds=60), applied_seq=0, fence=0)
    assert holder is not None
    office.drain()
    assert office.runner.ran == []
    assert office.table.holds(holder)


def test_a_killed_holder_is_followed_with_a_higher_fence(office: Office) -> None:
    def killed(_job: Job, _lease: Lease, _progress: ReportProgress) -> JobReport:
        office.lock.abandon = lambda held: None  # type: ignore[method-assign] # a dead process lets nothing go
        raise Killed

    office.accept(1)
    with pytest.raises(Killed):
        office.drain(office.mailbox(FakeRunner(work=killed)))
    office.accept(2)
    office.drain()
    assert office.statuses(1, 2) == ["running", "queued"]
    first_fence = office.job(1).fence
    office.clock.sleep(63)
    del office.lock.abandon
    office.drain()
    assert office.statuses(1, 2) == ["done", "done"]
    assert first_fence is not None
    assert all(fence > first_fence for _, fence in office.runner.ran)
    assert office.job(1).starts == 2
    assert office.phases(1).count("terminal") == 1


def test_a_paused_holder_that_wakes_up_stops_and_changes_nothing(office: Office) -> None:
    def paused(_job: Job, _lease: Lease, progress: ReportProgress) -> JobReport:
        office.clock.sleep(63)
        office.drain()  # another worker takes over and ends the job
        progress(Progress(phase="committing"))
        return pytest.fail("it went on without the lock")

    office.accept(1)
    office.drain(office.mailbox(FakeRunner(work=paused)))
    assert office.statuses(1) == ["done"]
    assert office.job(1).fence == office.runner.ran[0][1]
    assert office.phases(1).count("terminal") == 1
    assert office.free


@pytest.mark.parametrize("error", [StaleFence(), LockLost()], ids=lambda error: error.code)
def test_a_holder_that_was_overtaken_stops_quietly(office: Office, error: Exception) -> None:
    def overtaken(_job: Job, _lease: Lease, _progress: ReportProgress) -> JobReport:
        raise error

    office.accept(1)
    office.drain(office.mailbox(FakeRunner(work=overtaken)))
    assert office.statuses(1) == ["running"]
    office.drain()
    assert office.statuses(1) == ["done"]


def test_a_lost_reply_to_the_end_of_a_job_is_made_up_by_the_next_delivery(office: Office) -> None:
    finish = office.jobs.finish

    def lost(job: Job, lease: Lease) -> None:
        raise StoreUnavailable

    office.accept(1)
    office.jobs.finish = lost  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        office.drain()
    assert (office.statuses(1), office.free) == (["running"], True)
    office.jobs.finish = finish  # type: ignore[method-assign]
    office.drain()
    assert office.statuses(1) == ["done"]
    assert worked(office) == [job_id(1)] * 2  # the commit recognises its seq and does nothing the second time


def test_deliveries_after_the_end_do_nothing(office: Office) -> None:
    office.accept(1)
    for _ in range(3):
        office.drain()
    assert worked(office) == [job_id(1)]
    assert office.phases(1) == ["queued", "reading", "terminal"]


def test_an_emptied_table_goes_on_where_postgres_stands(office: Office) -> None:
    session = office.sessions.sessions[SESSION]
    office.sessions.sessions[SESSION] = replace(session, applied_seq=41, fence=2**60)
    accepted = office.accept(1)
    office.drain()
    assert accepted.seq == 42
    assert office.statuses(1) == ["done"]
    assert office.runner.ran == [(job_id(1), 2**60 + 1)]
    assert office.free
