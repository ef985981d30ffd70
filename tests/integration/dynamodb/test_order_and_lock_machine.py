"""Whatever workers do, and in whatever order: DynamoDB and the fake agree, and what the design promises holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from strata.errors import StrataError
from strata.model.jobs import Job, JobEvent, JobStatus, Lease
from strata.storage.dynamodb.client import Table
from strata.storage.dynamodb.jobs import DynamoJobStore
from strata.storage.dynamodb.lock import DynamoSessionLock
from tests.support.factories import job, job_id
from tests.support.fake_clock import FakeClock
from tests.support.fake_jobs import FakeJobStore, FakeJobTable
from tests.support.fake_lock import FakeSessionLock

OWNERS = ("a", "b", "c")
LEASE = timedelta(seconds=60)


class OrderAndLock(RuleBasedStateMachine):
    """Three workers, one session, two implementations that are asked the same."""

    table: Table
    sessions = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).sessions += 1
        self.session_id = f"s{self.sessions}"
        self.clock = FakeClock()
        shared = FakeJobTable(clock=self.clock)
        self.stores = (FakeJobStore(shared), DynamoJobStore(table=self.table, clock=self.clock))
        self.locks = (FakeSessionLock(shared), DynamoSessionLock(table=self.table, clock=self.clock))
        self.leases: dict[str, Lease] = {}
        self.opened: list[str] = []
        self.applied: list[int] = []  # what a fenced database would have accepted
        self.fence = 0
        self.fences: list[int] = []

    def both(self, ask: Callable[[Any, Any], Any]) -> Any:
        """What both answer, or the class of what both raise."""
        answers = []
        for store, lock in zip(self.stores, self.locks, strict=True):
            try:
                answers.append(ask(store, lock))
            except StrataError as error:
                answers.append(type(error))
        assert answers[0] == answers[1]
        return answers[0]

    @rule(seconds=st.sampled_from([0.1, 5, 30, 61, 63]))
    def time_passes(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    @precondition(lambda self: len(self.opened) < 6)
    @rule()
    def open(self) -> None:
        number = self.sessions * 100 + len(self.opened)
        made = job(job_id(number), session_id=self.session_id, created_at=self.clock.now())
        self.both(lambda store, _: store.create(made))
        self.opened.append(made.job_id)

    @precondition(lambda self: self.opened)
    @rule(data=st.data())
    def accept(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(self.opened))
        applied_seq = self.applied[-1] if self.applied else 0
        self.both(
            lambda store, _: store.accept(
                chosen, session_id=self.session_id, object_version=None, applied_seq=applied_seq
            )
        )

    @rule(owner=st.sampled_from(OWNERS))
    def acquire(self, owner: str) -> None:
        applied_seq = self.applied[-1] if self.applied else 0
        unique = f"{owner}{len(self.fences)}"
        lease = self.both(
            lambda _, lock: lock.acquire(
                self.session_id, owner=unique, lease=LEASE, applied_seq=applied_seq, fence=self.fence
            )
        )
        if lease is not None:
            self.leases[owner] = lease
            self.fences.append(lease.fence)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), how=st.sampled_from(["renew", "release", "abandon"]))
    def lock(self, data: st.DataObject, how: str) -> None:
        held = self.leases[data.draw(st.sampled_from(sorted(self.leases)))]
        if how == "renew":
            self.both(lambda _, lock: lock.renew(held, lease=LEASE))
        else:
            self.both(lambda _, lock: getattr(lock, how)(held))

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), tells=st.booleans(), ends=st.sampled_from([JobStatus.DONE, JobStatus.ERROR, None]))
    def work(self, data: st.DataObject, tells: bool, ends: JobStatus | None) -> None:
        held = self.leases[data.draw(st.sampled_from(sorted(self.leases)))]
        found = self.both(lambda store, _: store.next_queued(self.session_id))
        if found is None:
            return
        running = self.both(lambda store, _: store.start(found.job_id, held))
        if not isinstance(running, Job):
            return
        if tells:
            self.both(lambda store, _: store.append_event(running.job_id, "index_status", {"n": 1}))
        if ends is None:
            return  # the worker is killed
        if ends is JobStatus.DONE and held.fence >= self.fence and running.seq not in self.applied:
            assert running.seq is not None
            self.fence = held.fence
            self.applied.append(running.seq)
        self.both(lambda store, _: store.finish(replace(running, status=ends), held))

    @precondition(lambda self: self.opened)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(self.opened))
        self.both(lambda store, _: store.cancel(chosen))

    @precondition(lambda self: self.leases and self.opened)
    @rule(data=st.data())
    def a_worker_comes_to_the_commit(self, data: st.DataObject) -> None:
        held = self.leases[data.draw(st.sampled_from(sorted(self.leases)))]
        chosen = data.draw(st.sampled_from(self.opened))
        self.both(lambda store, _: store.begin_commit(chosen, held))

    @precondition(lambda self: self.leases and self.opened)
    @rule(data=st.data())
    def a_late_worker_ends_a_job(self, data: st.DataObject) -> None:
        held = self.leases[data.draw(st.sampled_from(sorted(self.leases)))]
        chosen = data.draw(st.sampled_from(self.opened))
        found = self.both(lambda store, _: store.get(chosen))
        if isinstance(found, Job) and found.seq is not None and found.status is JobStatus.RUNNING:
            self.both(lambda store, _: store.finish(replace(found, status=JobStatus.ERROR), held))

    @invariant()
    def fences_only_grow(self) -> None:
        assert self.fences == sorted(set(self.fences))

    @invariant()
    def what_was_applied_is_in_order(self) -> None:
        assert self.applied == sorted(set(self.applied))

    @invariant()
    def both_hold_the_same_jobs_and_events(self) -> None:
        for opened in self.opened:
            events = self.events_of(opened)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert "terminal" not in [event.name for event in events[:-1]]

    def events_of(self, opened: str) -> list[JobEvent]:
        self.both(lambda store, _: store.get(opened))
        events: list[JobEvent] = self.both(lambda store, _: store.events_after(opened, 0))
        return events

    def teardown(self) -> None:
        """Nobody's work is forgotten: one more worker, after everybody's lease, ends whatever was accepted."""
        self.clock.sleep(63)
        self.acquire("a")
        last = self.leases["a"]

        def next_queued(store: Any, _: Any) -> Job | None:
            found: Job | None = store.next_queued(self.session_id)
            return found

        def release(_: Any, lock: Any) -> bool:
            released: bool = lock.release(last)
            return released

        while (found := self.both(next_queued)) is not None:
            assert self.both(release) is False
            self.end(found, last)
        assert self.both(release) is True
        for opened in self.opened:
            stored = self.stores[1].get(opened)
            assert stored is not None
            assert stored.status.ended or stored.seq is None

    def end(self, found: Job, held: Lease) -> None:
        ended = found if found.status.ended else replace(found, status=JobStatus.ERROR)
        self.both(lambda store, _: store.finish(ended, held))


@pytest.mark.slow
def test_order_and_lock(dynamodb: Any, jobs_table: str) -> None:
    OrderAndLock.table = Table(client=dynamodb, name=jobs_table)
    OrderAndLock.sessions = 0
    run_state_machine_as_test(
        OrderAndLock,
        settings=settings(
            max_examples=25,
            stateful_step_count=20,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
