"""A cancel and a commit, whichever comes first.

The fake and the DynamoDB adapter keep the same promises.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.errors import JobCancelled, JobNotChangeable, LockLost
from strata.model.jobs import JobStatus
from tests.support.factories import job_id
from tests.support.job_kit import Kit


def test_a_cancel_that_comes_first_stops_the_commit(kit: Kit) -> None:
    accepted, lease = kit.accepted(1), kit.held()
    kit.jobs.start(accepted.job_id, lease)
    assert kit.jobs.cancel(accepted.job_id).cancel_requested
    assert kit.jobs.cancel(accepted.job_id).status is JobStatus.RUNNING
    with pytest.raises(JobCancelled):
        kit.jobs.begin_commit(accepted.job_id, lease)


def test_a_commit_that_comes_first_stops_the_cancel_for_good(kit: Kit) -> None:
    accepted, lease = kit.accepted(1), kit.held()
    kit.jobs.start(accepted.job_id, lease)
    for _ in range(2):
        kit.jobs.begin_commit(accepted.job_id, lease)
    with pytest.raises(JobNotChangeable):
        kit.jobs.cancel(accepted.job_id)
    kit.clock.sleep(63)
    kit.jobs.start(accepted.job_id, kit.held("b"))  # it may have been committed: no way back
    with pytest.raises(JobNotChangeable):
        kit.jobs.cancel(accepted.job_id)


def test_a_cancel_outlives_its_worker(kit: Kit) -> None:
    accepted, lease = kit.accepted(1), kit.held()
    kit.jobs.start(accepted.job_id, lease)
    kit.jobs.cancel(accepted.job_id)
    kit.clock.sleep(63)
    later = kit.held("b")
    assert kit.jobs.start(accepted.job_id, later).cancel_requested
    with pytest.raises(LockLost):
        kit.jobs.begin_commit(accepted.job_id, lease)
    with pytest.raises(JobCancelled):
        kit.jobs.begin_commit(accepted.job_id, later)


@pytest.mark.parametrize(
    ("committing", "end", "expected"),
    [
        pytest.param(False, JobStatus.ERROR, JobStatus.CANCELLED, id="what made it fail does not matter"),
        pytest.param(False, JobStatus.CANCELLED, JobStatus.CANCELLED, id="its worker obeyed"),
        pytest.param(True, JobStatus.ERROR, JobStatus.ERROR, id="refused: it was being committed"),
        pytest.param(True, JobStatus.DONE, JobStatus.DONE, id="refused: it was committed"),
    ],
)
def test_a_job_that_was_cancelled_ends_as_cancelled(
    kit: Kit, committing: bool, end: JobStatus, expected: JobStatus
) -> None:
    accepted, lease = kit.accepted(1), kit.held()
    started = kit.jobs.start(accepted.job_id, lease)
    if committing:
        kit.jobs.begin_commit(accepted.job_id, lease)
        with pytest.raises(JobNotChangeable):
            kit.jobs.cancel(accepted.job_id)
    else:
        kit.jobs.cancel(accepted.job_id)
    told = {"error_code": "worker_lost", "error_message": "Lost."} if end is JobStatus.ERROR else {}
    kit.jobs.finish(replace(started, status=end, **told), lease)
    found = kit.jobs.get(accepted.job_id)
    assert found is not None
    assert (found.status, found.error_code is not None) == (expected, expected is JobStatus.ERROR)
    assert [listed.job_id for listed in kit.jobs.failed("acme")] == [job_id(1)] * (expected is JobStatus.ERROR)
    assert [event.name for event in kit.jobs.events_after(accepted.job_id, 0)][-1] == "terminal"


def test_a_hand_over_takes_its_start_back(kit: Kit) -> None:
    accepted, lease = kit.accepted(1), kit.held()
    kit.jobs.start(accepted.job_id, lease)
    kit.jobs.hand_over(accepted.job_id, replace(lease, fence=lease.fence + 1))
    assert kit.jobs.start(accepted.job_id, lease).starts == 2
    kit.jobs.hand_over(accepted.job_id, lease)
    assert kit.jobs.start(accepted.job_id, lease).starts == 2
