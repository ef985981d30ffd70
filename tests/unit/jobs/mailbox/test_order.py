"""Jobs are worked in the order in which they were accepted, and no wake-up is lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from strata.jobs.running import ReportProgress
from strata.model.corpus import ReportedFile
from strata.model.jobs import Counters, Job, JobKind, JobReport, Lease
from tests.support.factories import job, job_id
from tests.support.office import SESSION, Office, worked


def test_accepted_jobs_are_worked_in_their_order_and_the_lock_is_released(office: Office) -> None:
    for number in (3, 1, 2):
        office.accept(number)
    office.drain()
    assert worked(office) == [job_id(3), job_id(1), job_id(2)]
    assert office.statuses(1, 2, 3) == ["done"] * 3
    assert office.free


def test_an_empty_mailbox_loads_nothing(office: Office) -> None:
    office.drain(replace(office.mailbox(), runner=lambda: pytest.fail("a model was loaded")))
    assert office.free


def test_a_session_that_is_gone_is_left_alone(office: Office) -> None:
    office.sessions.sessions.clear()
    office.drain()
    assert office.table.sessions == {}


def test_a_job_that_was_only_opened_is_not_worked(office: Office) -> None:
    office.jobs.create(job(job_id(1), session_id=SESSION))
    office.accept(2)
    office.drain()
    assert office.statuses(1, 2) == ["awaiting_upload", "done"]


def test_the_report_is_the_jobs_end(office: Office) -> None:
    report = JobReport(
        counters=Counters(indexed_files=2), chunks=9, generation=3, skipped=(ReportedFile(path="a", reason="empty"),)
    )
    office.runner.work = lambda _job, _lease, _progress: report
    office.accept(1)
    office.drain()
    assert office.job(1).report == report
    assert (office.job(1).error_code, office.job(1).starts) == (None, 1)


def test_a_snapshot_is_run_with_the_format_of_its_object(office: Office) -> None:
    office.accept(1, kind=JobKind.SNAPSHOT)
    office.drain()
    assert office.runner.formats == ["tar.gz"]


def test_a_job_accepted_while_the_holder_lets_go_is_not_forgotten(office: Office) -> None:
    office.accept(1)
    release = office.lock.release
    accepted: list[Job] = []

    def release_late(held: Lease) -> bool:
        if not accepted:  # the holder has seen an empty queue; now a job comes, and its own worker finds the lock taken
            accepted.append(office.accept(2))
            office.drain()
        return release(held)

    office.lock.release = release_late  # type: ignore[method-assign]
    office.drain()
    assert office.statuses(1, 2) == ["done", "done"]
    assert office.runner.ran[0][1] == office.runner.ran[1][1]  # one holder did both
    assert office.free


def test_no_wake_up_is_lost_among_many_workers(office: Office) -> None:
    seen, inside = [], []

    def alone(found: Job, lease: Lease, progress: ReportProgress) -> JobReport:
        inside.append(found.job_id)
        seen.append(len(inside))
        inside.remove(found.job_id)
        return JobReport()

    office.runner.work = alone
    together = threading.Barrier(20)

    def request(number: int) -> None:
        together.wait()
        office.accept(number)
        office.mailbox().drain(SESSION, owner=f"parallel-{number}", remaining_s=lambda: 900.0)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(request, range(20)))
    assert sorted(worked(office)) == sorted(job_id(number) for number in range(20))
    seqs = [office.jobs.get(found).seq for found in worked(office)]  # type: ignore[union-attr]
    assert seqs == list(range(1, 21))
    assert max(seen) == 1
    assert office.free
