"""What a long job tells on its way, and how it keeps its lease."""

from __future__ import annotations

from datetime import timedelta

from strata.jobs.running import Progress, ReportProgress
from strata.model.jobs import Job, JobReport, Lease
from tests.support.office import Office


def test_progress_keeps_the_lease_alive(office: Office) -> None:
    def long(_job: Job, _lease: Lease, progress: ReportProgress) -> JobReport:
        for done in range(40):
            office.clock.sleep(15)
            progress(Progress(phase="preparing", done_files=done, total_files=40))
            assert office.lock.acquire("docs", owner="x", lease=timedelta(1), applied_seq=0, fence=0) is None
        return JobReport()

    office.runner.work = long
    office.accept(1)
    office.drain()
    assert office.statuses(1) == ["done"]


def test_the_lease_is_renewed_every_third_of_it_and_no_oftener(office: Office) -> None:
    renewals = []
    renew = office.lock.renew

    def counted(held: Lease, *, lease: timedelta) -> Lease:
        renewals.append(office.clock.now())
        return renew(held, lease=lease)

    def long(_job: Job, _lease: Lease, progress: ReportProgress) -> JobReport:
        for _ in range(600):
            office.clock.sleep(0.1)
            progress(Progress(phase="preparing"))
        return JobReport()

    office.lock.renew = counted  # type: ignore[method-assign]
    office.runner.work = long
    office.accept(1)
    office.drain()
    assert len(renewals) == 3


def test_many_short_jobs_keep_the_lease_alive_too(office: Office) -> None:
    def short(_job: Job, _lease: Lease, _progress: ReportProgress) -> JobReport:
        office.clock.sleep(25)
        assert office.lock.acquire("docs", owner="x", lease=timedelta(1), applied_seq=0, fence=0) is None
        return JobReport()

    office.runner.work = short
    for number in range(6):
        office.accept(number)
    office.drain()
    assert office.statuses(*range(6)) == ["done"] * 6


def test_events_come_at_most_four_times_a_second_but_every_phase_is_told(office: Office) -> None:
    def busy(_job: Job, _lease: Lease, progress: ReportProgress) -> JobReport:
        progress(Progress(phase="planning"))
        for done in range(200):
            office.clock.sleep(0.01)
            progress(Progress(phase="preparing", done_files=done, total_files=200))
        progress(Progress(phase="committing", done_files=200, total_files=200))
        return JobReport()

    office.runner.work = busy
    office.accept(1)
    office.drain()
    phases = office.phases(1)
    assert phases[:4] == ["queued", "reading", "planning", "preparing"]
    assert phases[-2:] == ["committing", "terminal"]
    assert 6 <= phases.count("preparing") <= 9
