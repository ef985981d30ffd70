from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from strata.errors import (
    CorruptArchive,
    HandedOver,
    JobCancelled,
    JobNotChangeable,
    SessionBusy,
    SessionNotFound,
    StaleFence,
)
from strata.jobs.dispatch import Dispatcher
from strata.jobs.execution import JobExecution
from strata.jobs.mailbox import Mailbox
from strata.jobs.retrying import RetryPolicy
from strata.jobs.running import PackedBatches, Progress, ReportProgress
from strata.model.corpus import ReportedFile
from strata.model.jobs import Counters, Failure, Job, JobKind, JobReport, JobStatus, Lease
from strata.ports.workers import ExecutionState
from tests.support.factories import identity, job, job_id
from tests.support.fake_workers import FakeRunner
from tests.support.office import SESSION, Office

REPORT = JobReport(counters=Counters(indexed_files=3), chunks=7, generation=1)


@dataclass
class FakeStages:
    """Remembers the fences of what it was asked to do."""

    batches: int = 2
    fences: dict[str, int] = field(default_factory=dict)
    fault: Exception | None = None
    told: Failure | None = None

    def plan(self, job: Job, progress: ReportProgress) -> PackedBatches:
        progress(Progress(phase="planning"))
        if self.fault:
            raise self.fault
        return PackedBatches(
            manifest_key=f"executions/{job.session_id}/{job.job_id}/manifest.json", batches=self.batches
        )

    def prepare(self, job: Job, batch_key: str, progress: ReportProgress) -> None:
        progress(Progress(phase="preparing"))

    def fill(self, job: Job, lease: Lease, progress: ReportProgress) -> int | None:
        progress(Progress(phase="committing"))
        self.fences["fill"] = lease.fence
        return 5

    def flip(self, job: Job, lease: Lease, index_id: int | None, progress: ReportProgress) -> JobReport:
        assert index_id == 5
        self.fences["flip"] = lease.fence
        return REPORT

    def failure(self, job: Job) -> Failure | None:
        return self.told


@dataclass
class FakeExecutions:
    states: dict[str, ExecutionState] = field(default_factory=dict)

    def start(self, job: Job) -> ExecutionState:
        return self.states.setdefault(job.job_id, ExecutionState.RUNNING)


class Works(Office):
    """An office where large snapshots go to an execution."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.stages, self.executions = FakeStages(), FakeExecutions()
        self.dispatcher = Dispatcher(
            sessions=self.sessions,
            objects=self.objects,
            executions=self.executions,
            least_archive_bytes=1_000,
            embedding_model="hashed-256",
            dimension=256,
            pipeline_version="1",
        )
        self.execution = JobExecution(
            sessions=self.sessions,
            jobs=self.jobs,
            lock=self.lock,
            clock=self.clock,
            lease=timedelta(seconds=60),
            mailbox=self.mailbox(),
            stages=lambda: self.stages,
            retry=RetryPolicy(sleep=self.clock.sleep, draw=lambda: 1.0),
        )

    def mailbox(self, runner: FakeRunner | None = None, **changed: Any) -> Mailbox:
        return super().mailbox(runner, **({"dispatcher": self.dispatcher} | changed))

    def accept(self, number: int, *, kind: JobKind = JobKind.SNAPSHOT, reindex: bool = False, size: int = 10) -> Job:
        made = replace(job(job_id(number), session_id=SESSION, kind=kind), reindex=reindex)
        self.objects.put(made.object_key, b"x" * size, content_type="")
        self.jobs.create(made)
        return self.jobs.accept(made.job_id, session_id=SESSION, object_version=None, applied_seq=0)


def plenty() -> float:
    return 900.0


@pytest.fixture
def works() -> Works:
    return Works()


# --- which jobs go to an execution ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "reindex", "size", "dispatched"),
    [
        pytest.param(JobKind.SNAPSHOT, False, 999, False, id="small"),
        pytest.param(JobKind.SNAPSHOT, False, 1_000, True, id="large"),
        pytest.param(JobKind.SNAPSHOT, True, 1, True, id="a new index is asked for"),
        pytest.param(JobKind.CHANGES, False, 5_000, False, id="changes stay in place"),
        pytest.param(JobKind.ROLLBACK, False, 1, False, id="so does a roll-back"),
    ],
)
def test_a_large_snapshot_goes_to_an_execution_and_the_lock_is_let_go(
    works: Works, kind: JobKind, reindex: bool, size: int, dispatched: bool
) -> None:
    works.accept(1, kind=kind, reindex=reindex, size=size)
    works.drain()
    assert (job_id(1) in works.executions.states) == dispatched
    assert works.job(1).status is (JobStatus.QUEUED if dispatched else JobStatus.DONE)
    assert works.free


def test_a_snapshot_of_another_model_goes_to_an_execution(works: Works) -> None:
    works.dispatcher = replace(works.dispatcher, embedding_model="minilm")
    works.accept(1)
    works.drain()
    assert job_id(1) in works.executions.states


def test_a_job_whose_execution_failed_unseen_is_ended_by_the_next_worker(works: Works) -> None:
    works.accept(1, reindex=True)
    works.accept(2, kind=JobKind.CHANGES)
    works.executions.states[job_id(1)] = ExecutionState.FAILED
    works.drain()
    assert (works.job(1).status, works.job(1).error_code) == (JobStatus.ERROR, "execution_failed")
    assert works.job(2).status is JobStatus.DONE


def test_a_job_that_was_cancelled_before_its_execution_died_unseen_is_cancelled(works: Works) -> None:
    works.accept(1, reindex=True)
    works.accept(2, kind=JobKind.CHANGES)
    works.drain()
    works.execution.plan(job_id(1), plenty)
    works.jobs.cancel(job_id(1))
    works.executions.states[job_id(1)] = ExecutionState.FAILED
    works.clock.sleep(63)
    works.drain()
    assert (works.job(1).status, works.job(1).error_code) == (JobStatus.CANCELLED, None)
    assert works.job(2).status is JobStatus.DONE


@pytest.mark.parametrize("status", ["FAILED", "TIMED_OUT", "ABORTED"])
def test_a_job_that_was_cancelled_before_its_execution_ended_is_cancelled(works: Works, status: str) -> None:
    works.accept(1, reindex=True)
    works.execution.plan(job_id(1), plenty)
    works.jobs.cancel(job_id(1))
    works.execution.ended(job_id(1), status, owner="rule", remaining_s=plenty)
    assert (works.job(1).status, works.job(1).error_code) == (JobStatus.CANCELLED, None)
    assert works.free


# --- the states ----------------------------------------------------------------------------------------------------


def run(works: Works, number: int) -> None:
    planned = works.execution.plan(job_id(number), plenty)
    for batch in range(planned.batches):
        works.execution.prepare(job_id(number), f"batch-{batch}", plenty)
    index_id = works.execution.fill(job_id(number), plenty)
    works.execution.flip(job_id(number), index_id, plenty)
    works.execution.release(SESSION, job_id(number), owner="last", remaining_s=plenty)


def test_the_states_bring_a_job_to_its_end_and_drain_what_waits(works: Works) -> None:
    works.accept(1, reindex=True)
    works.drain()
    works.accept(2, kind=JobKind.CHANGES)
    run(works, 1)
    assert (works.job(1).status, works.job(1).report) == (JobStatus.DONE, REPORT)
    assert works.job(2).status is JobStatus.DONE
    assert works.free
    assert works.runner.ran[0][0] == job_id(2)


def test_nobody_else_works_on_the_session_while_the_execution_holds_it(works: Works) -> None:
    works.accept(1, reindex=True)
    works.accept(2, kind=JobKind.CHANGES)
    works.execution.plan(job_id(1), plenty)
    works.drain()
    assert works.job(2).status is JobStatus.QUEUED
    assert not works.free


def test_every_state_renews_the_lock(works: Works) -> None:
    works.accept(1, reindex=True)
    works.execution.plan(job_id(1), plenty)
    states: list[Callable[[], object]] = [
        lambda: works.execution.prepare(job_id(1), "batch-0", plenty),
        lambda: works.execution.fill(job_id(1), plenty),
    ]
    for state in states:
        works.clock.sleep(50)
        state()
        assert works.table.session(SESSION).until == works.clock.now() + timedelta(seconds=60)


def test_a_lock_that_ran_out_is_taken_anew_with_a_greater_fence(works: Works) -> None:
    works.accept(1, reindex=True)
    works.execution.plan(job_id(1), plenty)
    works.execution.fill(job_id(1), plenty)
    works.clock.sleep(300)
    works.drain()  # another worker finds the job dispatched, and leaves
    works.execution.flip(job_id(1), 5, plenty)
    assert works.stages.fences["flip"] > works.stages.fences["fill"]
    assert works.job(1).status is JobStatus.DONE


def test_a_plan_waits_for_the_worker_that_holds_the_session(works: Works) -> None:
    works.accept(1, reindex=True)
    works.lock.acquire(SESSION, owner="worker", lease=timedelta(seconds=60), applied_seq=0, fence=0)
    with pytest.raises(SessionBusy):
        works.execution.plan(job_id(1), plenty)


def test_a_plan_waits_for_its_turn(works: Works) -> None:
    works.accept(1, kind=JobKind.CHANGES)
    works.accept(2, reindex=True)
    with pytest.raises(SessionBusy):
        works.execution.plan(job_id(2), plenty)
    assert works.free


def test_a_plan_of_a_job_that_has_ended_says_so(works: Works) -> None:
    works.accept(1, reindex=True)
    run(works, 1)
    assert works.execution.plan(job_id(1), plenty).ended


def test_a_flip_whose_reply_was_lost_is_repeated_in_vain(works: Works) -> None:
    works.accept(1, reindex=True)
    run(works, 1)
    works.stages.fences.clear()
    works.execution.flip(job_id(1), 5, plenty)
    assert (works.stages.fences, works.free) == ({}, True)


@pytest.mark.parametrize("state", ["prepare", "fill", "flip"])
def test_a_state_of_a_job_that_was_ended_from_outside_does_nothing(works: Works, state: str) -> None:
    works.accept(1, reindex=True)
    works.execution.plan(job_id(1), plenty)
    works.table.jobs[job_id(1)] = replace(works.job(1), status=JobStatus.CANCELLED)
    calls: dict[str, Callable[[], object]] = {
        "prepare": lambda: works.execution.prepare(job_id(1), "batch-0", plenty),
        "fill": lambda: works.execution.fill(job_id(1), plenty),
        "flip": lambda: works.execution.flip(job_id(1), 5, plenty),
    }
    with pytest.raises(JobNotChangeable):
        calls[state]()
    works.execution.fail(job_id(1), "JobNotChangeable", "{}")
    assert works.job(1).status is JobStatus.CANCELLED
    assert works.table.session(SESSION).done_seq == 1


def test_a_state_near_the_end_of_its_time_hands_over(works: Works) -> None:
    works.accept(1, reindex=True)
    works.execution.plan(job_id(1), plenty)
    with pytest.raises(HandedOver):
        works.execution.fill(job_id(1), lambda: 5.0)


# --- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "cause", "code", "message"),
    [
        pytest.param(
            "CorruptArchive",
            json.dumps({"errorMessage": "It is cut off.", "errorType": "CorruptArchive"}),
            "corrupt_archive",
            "It is cut off.",
            id="an error of ours keeps its sentence",
        ),
        pytest.param("CorruptArchive", "", "corrupt_archive", CorruptArchive().message, id="or has that of its class"),
        pytest.param("States.Timeout", "", "worker_lost", "A step of the job did not end in its time.", id="time"),
        pytest.param(
            "KeyError",
            json.dumps({"errorMessage": "'secret'"}),
            "internal",
            "The job failed unexpectedly (KeyError); nothing was written.",
            id="a fault tells no content",
        ),
    ],
)
def test_a_failed_state_ends_the_job(works: Works, error: str, cause: str, code: str, message: str) -> None:
    works.accept(1, reindex=True)
    works.execution.plan(job_id(1), plenty)
    works.execution.fail(job_id(1), error, cause)
    works.execution.release(SESSION, job_id(1), owner="last", remaining_s=plenty)
    ended = works.job(1)
    assert (ended.status, ended.error_code, ended.error_message) == (JobStatus.ERROR, code, message)
    assert works.free


def test_what_a_batch_has_said_goes_before_what_the_map_says(works: Works) -> None:
    works.accept(1, reindex=True)
    works.execution.plan(job_id(1), plenty)
    about = ReportedFile(path="a.md", reason="It says: a secret", acl=("user:ann",))
    works.stages.told = Failure("embedder_rejected", "No vector.", about)
    works.execution.fail(job_id(1), "States.ExceedToleratedFailureThreshold", "")
    assert (works.job(1).error_code, works.job(1).error_message) == ("embedder_rejected", "No vector.")
    assert works.job(1).error_about == about


def test_an_execution_that_was_stopped_ends_its_job_and_drains(works: Works) -> None:
    works.accept(1, reindex=True)
    works.accept(2, kind=JobKind.CHANGES)
    works.execution.plan(job_id(1), plenty)
    works.execution.ended(job_id(1), "ABORTED", owner="rule", remaining_s=plenty)
    assert (works.job(1).status, works.job(1).error_code) == (JobStatus.ERROR, "execution_failed")
    assert works.job(1).error_message == "The execution for this job ended as ABORTED."
    assert (works.job(2).status, works.free) == (JobStatus.DONE, True)


def test_the_end_of_an_execution_whose_job_is_over_changes_nothing(works: Works) -> None:
    works.accept(1, reindex=True)
    run(works, 1)
    works.execution.ended(job_id(1), "FAILED", owner="rule", remaining_s=plenty)
    works.execution.ended("job-unknown", "FAILED", owner="rule", remaining_s=plenty)
    assert works.job(1).status is JobStatus.DONE


# --- cancelled and deleted -----------------------------------------------------------------------------------------


def test_a_job_that_is_cancelled_while_it_is_prepared_ends_as_cancelled(works: Works) -> None:
    works.accept(1, reindex=True)
    works.execution.plan(job_id(1), plenty)
    works.jobs.cancel(job_id(1))
    with pytest.raises(JobCancelled):
        works.execution.prepare(job_id(1), "batch-0", plenty)
    works.execution.fail(job_id(1), "States.ExceedToleratedFailureThreshold", "")
    works.execution.release(SESSION, job_id(1), owner="last", remaining_s=plenty)
    assert (works.job(1).status, works.job(1).error_code) == (JobStatus.CANCELLED, None)
    assert works.free


def test_a_session_that_is_deleted_meanwhile_ends_its_execution_and_is_purged(works: Works) -> None:
    works.accept(1, reindex=True)
    works.execution.plan(job_id(1), plenty)
    works.keeper.delete(identity("ann"), SESSION)
    with pytest.raises(SessionNotFound):
        works.execution.fill(job_id(1), plenty)
    works.execution.release(SESSION, job_id(1), owner="last", remaining_s=plenty)
    assert works.sessions.get(SESSION) is None
    assert works.objects.objects == {}


def test_a_holder_that_was_paused_commits_nothing_after_a_state_of_an_execution(works: Works) -> None:
    works.accept(1, reindex=True)
    works.execution.plan(job_id(1), plenty)
    with pytest.raises(StaleFence):
        works.sessions.claim(SESSION, 1)
