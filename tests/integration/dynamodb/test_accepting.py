"""Jobs get their places in the session's order, and are worked on in it. Fake and adapter keep the same promises."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from strata.errors import JobNotChangeable, JobNotFound, LockLost
from strata.model.jobs import JobStatus
from tests.support.factories import job, job_id
from tests.support.job_kit import SESSION, Kit


def test_accepting_queues_with_the_next_seq_and_tells_it(kit: Kit) -> None:
    first, second = kit.accepted(1), kit.accepted(2)
    assert (first.seq, second.seq) == (1, 2)
    assert kit.jobs.get(first.job_id) == first
    assert (first.status, first.object_version) == (JobStatus.QUEUED, "v1")
    events = kit.jobs.events_after(first.job_id, 0)
    assert [(event.seq, event.name, event.data["status"]) for event in events] == [(1, "index_status", "queued")]


def test_accepting_again_changes_nothing(kit: Kit) -> None:
    first = kit.accepted(1)
    again = kit.jobs.accept(first.job_id, session_id=SESSION, object_version="v2", applied_seq=0)
    assert again == first
    assert kit.accepted(2).seq == 2


@pytest.mark.parametrize("session_id", ["docs", "another"])
def test_accepting_a_job_of_nobody_or_of_another_session_is_not_found(kit: Kit, session_id: str) -> None:
    kit.jobs.create(job(job_id(1), session_id="a-third"))
    with pytest.raises(JobNotFound):
        kit.jobs.accept(
            job_id(1 if session_id == "docs" else 2), session_id=session_id, object_version=None, applied_seq=0
        )


def test_twenty_parallel_accepts_get_distinct_consecutive_seqs(kit: Kit) -> None:
    for number in range(20):
        kit.jobs.create(job(job_id(number), session_id=SESSION))
    together = threading.Barrier(20)

    def accept(number: int) -> int | None:
        together.wait()
        return kit.jobs.accept(job_id(number), session_id=SESSION, object_version=None, applied_seq=0).seq

    with ThreadPoolExecutor(20) as pool:
        seqs = list(pool.map(accept, range(20)))
    assert sorted(seq for seq in seqs if seq is not None) == list(range(1, 21))


def test_one_job_accepted_in_parallel_takes_one_place(kit: Kit) -> None:
    kit.jobs.create(job(session_id=SESSION))

    def accept(_: int) -> int | None:
        return kit.jobs.accept(job().job_id, session_id=SESSION, object_version=None, applied_seq=0).seq

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(accept, range(8))) == {1}
    assert kit.accepted(2).seq == 2
    assert len(kit.jobs.events_after(job().job_id, 0)) == 1


def test_jobs_are_done_in_the_order_of_their_seqs(kit: Kit) -> None:
    accepted = [kit.accepted(number) for number in (3, 1, 2)]
    lease, worked = kit.held(), []
    while found := kit.jobs.next_queued(SESSION):
        worked.append(found)
        kit.done(kit.jobs.start(found.job_id, lease), lease)
    assert [found.job_id for found in worked] == [found.job_id for found in accepted]


def test_starting_marks_the_job_and_counts_its_starts(kit: Kit) -> None:
    found = kit.accepted(1)
    lease = kit.held()
    kit.jobs.start(found.job_id, lease)
    running = kit.jobs.start(found.job_id, lease)
    assert (running.status, running.fence, running.starts) == (JobStatus.RUNNING, lease.fence, 2)
    assert kit.jobs.get(found.job_id) == running


def test_only_the_holder_starts_and_finishes(kit: Kit) -> None:
    found = kit.accepted(1)
    paused = kit.held("paused")
    kit.clock.sleep(63)
    holder = kit.held("holder")
    assert holder.fence > paused.fence
    with pytest.raises(LockLost):
        kit.jobs.start(found.job_id, paused)
    running = kit.jobs.start(found.job_id, holder)
    with pytest.raises(LockLost):
        kit.done(running, paused)
    assert kit.jobs.get(found.job_id) == running
    assert kit.jobs.next_queued(SESSION) == running


def test_a_job_that_was_not_accepted_or_has_ended_is_not_started(kit: Kit) -> None:
    lease = kit.held()
    kit.jobs.create(job(job_id(9), session_id=SESSION))
    with pytest.raises(JobNotChangeable):
        kit.jobs.start(job_id(9), lease)
    with pytest.raises(JobNotFound):
        kit.jobs.start(job_id(10), lease)
    kit.done(kit.accepted(1), lease)
    with pytest.raises(JobNotChangeable):
        kit.jobs.start(job_id(1), lease)


def test_an_accepted_job_is_not_rejected(kit: Kit) -> None:
    found = kit.accepted(1)
    with pytest.raises(JobNotChangeable):
        kit.jobs.reject(replace(found, status=JobStatus.EXPIRED))
    assert kit.jobs.get(found.job_id) == found
