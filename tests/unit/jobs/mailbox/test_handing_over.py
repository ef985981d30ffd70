"""A worker whose time is over lets go in time, and a job ends at last."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from strata.errors import (
    HandedOver,
)
from strata.jobs.running import Progress, ReportProgress
from strata.model.jobs import Job, JobReport, JobStatus, Lease
from tests.support.factories import job_id
from tests.support.fake_workers import FakeRunner
from tests.support.office import Killed, Office, worked


def test_a_worker_near_its_end_hands_over_before_it_begins(office: Office) -> None:
    office.accept(1)
    with pytest.raises(HandedOver):
        office.drain(remaining_s=lambda: 19.0)
    assert (office.statuses(1), office.free, office.runner.ran) == (["queued"], True, [])
    office.drain()
    assert office.statuses(1) == ["done"]


def test_a_worker_near_its_end_hands_over_in_the_middle_of_a_job(office: Office) -> None:
    ends_at = office.clock.monotonic() + 900

    def long(_job: Job, _lease: Lease, progress: ReportProgress) -> JobReport:
        for _ in range(100):
            office.clock.sleep(15)
            progress(Progress(phase="preparing"))
        return pytest.fail("it ran beyond its time")

    office.accept(1)
    office.accept(2)
    with pytest.raises(HandedOver):
        office.drain(office.mailbox(FakeRunner(work=long)), remaining_s=lambda: ends_at - office.clock.monotonic())
    assert office.clock.monotonic() < ends_at
    assert (office.statuses(1, 2), office.free) == (["running", "queued"], True)
    office.drain()
    assert office.statuses(1, 2) == ["done", "done"]


@pytest.mark.parametrize(
    ("written_files", "status"), [pytest.param(1, "done", id="batches"), pytest.param(0, "error", id="nothing")]
)
def test_workers_that_fill_an_index_bit_by_bit_come_to_an_end(office: Office, written_files: int, status: str) -> None:
    """A start counts only where it brought nothing that the next worker finds there."""
    office.accept(1)
    for worker in range(8):
        ends_at = office.clock.monotonic() + 60

        def fill(_job: Job, _lease: Lease, progress: ReportProgress, worker: int = worker) -> JobReport:
            for _ in range(1 if worker == 7 else 10):
                office.clock.sleep(15)
                progress(Progress(phase="filling", written_files=written_files))
            return JobReport()

        with suppress(HandedOver):
            office.drain(
                office.mailbox(FakeRunner(work=fill)), remaining_s=lambda end=ends_at: end - office.clock.monotonic()
            )
    assert office.statuses(1) == [status]


def test_an_idle_worker_near_its_end_has_nothing_to_hand_over(office: Office) -> None:
    office.drain(remaining_s=lambda: 0.0)
    assert office.free


def test_a_job_that_kills_every_worker_is_given_up(office: Office) -> None:
    def deadly(found: Job, _lease: Lease, _progress: ReportProgress) -> JobReport:
        if found.job_id == job_id(1):
            raise Killed
        return JobReport()

    office.runner.work = deadly
    office.accept(1)
    office.accept(2)
    for _ in range(5):
        with pytest.raises(Killed):
            office.drain()
    office.drain()
    assert office.statuses(1, 2) == ["error", "done"]
    assert office.job(1).error_code == "worker_lost"
    assert worked(office).count(job_id(1)) == 5


def test_a_job_ended_from_outside_only_gives_up_its_place(office: Office) -> None:
    first = office.accept(1)
    office.accept(2)
    office.table.jobs[first.job_id] = replace(first, status=JobStatus.CANCELLED)
    office.drain()
    assert office.statuses(1, 2) == ["cancelled", "done"]
    assert worked(office) == [job_id(2)]
    assert office.free


def test_a_job_ended_from_outside_while_it_runs_stays_ended(office: Office) -> None:
    def cancelled(found: Job, _lease: Lease, progress: ReportProgress) -> JobReport:
        office.table.jobs[found.job_id] = replace(found, status=JobStatus.CANCELLED)
        progress(Progress(phase="committing"))
        return pytest.fail("it went on")

    office.accept(1)
    office.drain(office.mailbox(FakeRunner(work=cancelled)))
    assert office.statuses(1) == ["cancelled"]
    assert office.free
