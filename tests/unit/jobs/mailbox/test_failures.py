"""What a job's failure does to it, and to the next one."""

from __future__ import annotations

from typing import Any

import pytest

from strata.errors import (
    CorruptArchive,
    EmbedderUnavailable,
    HandedOver,
    StoreUnavailable,
    UploadTooLarge,
)
from strata.jobs.running import ReportProgress
from strata.model.jobs import Job, JobReport, JobStatus, Lease
from tests.support.factories import job_id
from tests.support.office import Office, worked


@pytest.mark.parametrize(
    "error", [CorruptArchive("The archive ends too early."), UploadTooLarge()], ids=lambda error: error.code
)
def test_a_permanent_error_ends_its_job_and_the_next_one_is_worked(office: Office, error: Any) -> None:
    def broken(found: Job, _lease: Lease, _progress: ReportProgress) -> JobReport:
        if found.job_id == job_id(1):
            raise error
        return JobReport()

    office.runner.work = broken
    office.accept(1)
    office.accept(2)
    office.drain()
    assert office.statuses(1, 2) == ["error", "done"]
    assert (office.job(1).error_code, office.job(1).error_message) == (error.code, error.message)
    assert worked(office) == [job_id(1), job_id(2)]


def test_an_unexpected_error_ends_its_job_without_its_text(office: Office) -> None:
    def broken(_job: Job, _lease: Lease, _progress: ReportProgress) -> JobReport:
        raise KeyError("password=hunter2")

    office.runner.work = broken
    office.accept(1)
    office.drain()
    assert office.job(1).error_code == "internal"
    assert "hunter2" not in str(office.job(1))
    assert office.free


@pytest.mark.parametrize(
    "error", [EmbedderUnavailable(), TimeoutError(), ConnectionResetError(), OSError()], ids=lambda e: type(e).__name__
)
def test_a_temporary_error_is_retried_and_leaves_no_trace(office: Office, error: Exception) -> None:
    errors = [error, error]

    def shaky(_job: Job, _lease: Lease, _progress: ReportProgress) -> JobReport:
        if errors:
            raise errors.pop()
        return JobReport(chunks=1)

    office.runner.work = shaky
    office.accept(1)
    office.drain()
    assert (office.job(1).status, office.job(1).report.chunks, office.job(1).starts) == (JobStatus.DONE, 1, 1)
    assert len(office.runner.ran) == 3


@pytest.mark.parametrize(
    ("error", "code"),
    [(EmbedderUnavailable("The embedder is away."), "embedder_unavailable"), (TimeoutError(), "temporary_error")],
    ids=["ours", "the system's"],
)
def test_a_temporary_error_that_stays_ends_the_job_with_its_cause(office: Office, error: Exception, code: str) -> None:
    def away(_job: Job, _lease: Lease, _progress: ReportProgress) -> JobReport:
        raise error

    office.runner.work = away
    office.accept(1)
    office.drain()
    assert (office.job(1).status, office.job(1).error_code) == (JobStatus.ERROR, code)
    assert len(office.runner.ran) == 4
    assert office.free


def test_a_failure_of_the_lock_does_not_hide_the_first_failure(office: Office) -> None:
    def unreachable(held: Lease) -> None:
        raise StoreUnavailable("the lock")

    office.accept(1)
    office.lock.abandon = unreachable  # type: ignore[method-assign]
    with pytest.raises(HandedOver):
        office.drain(remaining_s=lambda: 1.0)
