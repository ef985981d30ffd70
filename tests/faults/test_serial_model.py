"""Whatever is sent, cancelled, killed, paused, restarted and told three times: the index is what a serial model says.

`make faults` runs more and longer examples.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from strata.bootstrap import stores as built
from strata.errors import JobNotChangeable
from strata.model.jobs import Job, JobStatus
from tests.faults.conftest import impatient, stores
from tests.faults.test_kills import MOST_KILLS, changes_of, snapshot_of
from tests.support.fault_model import NEW_INDEX_POINTS, POINTS, Files, Model
from tests.support.fault_world import World, killed, world
from tests.support.index_statistics import assert_rows_agree
from tests.support.restartable_postgres import RestartablePostgres, restartable_postgres

EXAMPLES, STEPS = (25, 30) if "STRATA_FAULT_RUNS" in os.environ else (2, 12)
MOST_PAUSED = 2
WORKER_POINTS = tuple(dict.fromkeys((*POINTS[2:], *NEW_INDEX_POINTS)))
"""Where a worker that was told of an accepted job may die or stand still."""


class SerialModel(RuleBasedStateMachine):
    """One session; senders and workers of all kinds. What a job asks for is kept and held against what came of it."""

    world: ClassVar[World]
    postgres: ClassVar[RestartablePostgres]
    sessions: ClassVar[int] = 0

    @initialize(seed=st.integers(0, 2**32))
    def open(self, seed: int) -> None:
        type(self).sessions += 1
        self.session = f"machine-{self.sessions}"
        self.random = random.Random(seed)
        self.jobs: list[Job] = []
        self.asked: dict[str, dict[str, Any]] = {}
        self.paused: list[Any] = []
        self.kills = 0
        self.snapshot(reindex=False)

    # --- senders ---

    @rule()
    def changes(self) -> None:
        changes = changes_of(self.random, self.asked_for())
        self.sent(self.world.changes(self.session, changes), changes=changes)

    @rule(reindex=st.booleans())
    def snapshot(self, reindex: bool) -> None:
        lines = snapshot_of(self.random, self.asked_for())
        self.sent(self.world.snapshot_of(self.session, lines, reindex=reindex), lines=lines, reindex=reindex)

    def asked_for(self) -> Files:
        """What the senders think that the session holds: everything that was sent."""
        model = Model()
        for asked in self.asked.values():
            carry_out(model, asked)
        return model.files

    def sent(self, job: Job, **asked: Any) -> None:
        self.jobs.append(job)
        self.asked[job.job_id] = asked

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        with suppress(JobNotChangeable):
            built.job_store().cancel(self.any_job(data).job_id)

    # --- workers ---

    def any_job(self, data: st.DataObject) -> Job:
        return self.jobs[data.draw(st.integers(0, len(self.jobs) - 1), label="job")]

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        assert not killed(self.world.deliver(self.any_job(data)))

    @rule(data=st.data())
    def deliver_three_times_at_once(self, data: st.DataObject) -> None:
        workers = [self.world.deliver(job) for job in [self.any_job(data)] * 3]
        assert [killed(worker) for worker in workers] == [False] * 3

    # Whether a worker dies or stands still is not known before, so it must not decide which rules there are: Hypothesis
    # takes it for a fault when the same draws give another choice.

    @property
    def may_lose_a_worker(self) -> bool:
        return self.kills + len(self.paused) < MOST_KILLS  # a job that was begun five times is given up

    @rule(data=st.data(), point=st.sampled_from(WORKER_POINTS))
    def kill(self, data: st.DataObject, point: str) -> None:
        fault = point if self.may_lose_a_worker else ""
        self.kills += killed(self.world.deliver(self.any_job(data), fault=fault))

    @rule(data=st.data(), point=st.sampled_from(WORKER_POINTS))
    def pause(self, data: st.DataObject, point: str) -> None:
        fault = f"{point}:1:STOP" if self.may_lose_a_worker and len(self.paused) < MOST_PAUSED else ""
        worker = self.world.deliver(self.any_job(data), fault=fault)
        if stopped(worker):
            self.paused.append(worker)

    @rule()
    def wake(self) -> None:
        if not self.paused:
            return
        worker = self.paused.pop(0)
        os.kill(worker.pid, signal.SIGCONT)
        assert not killed(worker)
        self.kills += 1  # it began the job as one that was killed did

    @rule()
    def time_passes_and_the_sweep_comes(self) -> None:
        self.world.let_the_lease_end(self.session)
        for order in self.world.sweep()[1]:
            if order.session_id == self.session:
                assert not killed(self.world.obey(order))

    @rule(how=st.sampled_from([signal.SIGINT, signal.SIGQUIT]))
    def postgres_restarts(self, how: signal.Signals) -> None:
        self.postgres.stop(how)
        self.postgres.start()

    # --- what holds at any time ---

    def serially(self, applied_seq: int) -> Model:
        """What the jobs up to this place give, without those that were cancelled."""
        model = Model()
        for job in map(self.world.job, self.jobs):
            if job.seq is not None and job.seq <= applied_seq and job.status is not JobStatus.CANCELLED:
                carry_out(model, self.asked[job.job_id])
        return model

    @invariant()
    def readers_see_the_jobs_up_to_one_place_in_their_order(self) -> None:
        self.world.check_readers(self.session, self.serially)

    @invariant()
    def jobs_have_places_and_events_without_gaps(self) -> None:
        order = self.world.order(self.session)
        assert order.done_seq <= order.accepted_seq == len(self.jobs)
        for job in self.jobs:
            events = built.job_store().events_after(job.job_id, 0)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert "terminal" not in [event.name for event in events[:-1]]

    def teardown(self) -> None:
        while self.paused:
            self.wake()
        self.world.finish(self.session, self.jobs)
        ended = [self.world.job(job) for job in self.jobs]
        cancelled = {job.job_id for job in ended if job.status is JobStatus.CANCELLED}
        self.world.check(self.session, self.jobs, self.serially(len(self.jobs)), cancelled=cancelled)
        assert_rows_agree(self.world.database.owner_url)


def carry_out(model: Model, asked: Mapping[str, Any]) -> None:
    if "changes" in asked:
        model.changes(asked["changes"])
    else:
        model.snapshot(asked["lines"], reindex=asked["reindex"])


def stopped(worker: Any, timeout_s: float = 60.0) -> bool:
    """Whether the worker stands still at its point; False when it came to its end without passing there."""
    limit = time.monotonic() + timeout_s
    while time.monotonic() < limit:
        if worker.exitcode is not None:
            return False
        with suppress(FileNotFoundError):
            if Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                return True
        time.sleep(0.02)
    raise AssertionError("the worker neither stops nor ends")


@pytest.fixture
def machine(aws_endpoint: str) -> Iterator[type[SerialModel]]:
    with (
        restartable_postgres() as postgres,
        postgres.server.fresh_database() as database,
        impatient(database),
        world(database, *stores(aws_endpoint)) as made,
    ):
        SerialModel.world, SerialModel.postgres, SerialModel.sessions = made, postgres, 0
        yield SerialModel


@pytest.mark.timeout(120 + 120 * EXAMPLES)
def test_the_index_is_what_a_serial_model_says(machine: type[SerialModel]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],  # time is part of each example: a smaller one proves nothing
            suppress_health_check=list(HealthCheck),
        ),
    )
