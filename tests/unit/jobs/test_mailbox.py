from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from strata.errors import (
    CorruptArchive,
    EmbedderUnavailable,
    HandedOver,
    LockLost,
    StaleFence,
    StoreUnavailable,
    UploadTooLarge,
)
from strata.jobs.keeping import SessionKeeper
from strata.jobs.mailbox import Mailbox
from strata.jobs.retrying import RetryPolicy
from strata.jobs.running import Progress, ReportProgress
from strata.model.corpus import ReportedFile
from strata.model.jobs import Counters, Job, JobKind, JobReport, JobStatus, Lease
from tests.support.factories import identity
from tests.support.fakes import FakeSessionStore
from tests.support.job_fakes import (
    FakeClock,
    FakeJobStore,
    FakeJobTable,
    FakeObjectStore,
    FakeRunner,
    FakeSessionLock,
    FakeWorkerCalls,
    job,
    job_id,
)

SESSION = "docs"


class Killed(BaseException):
    """Stands for a process that ends in the middle: nothing that a worker catches."""


@dataclass
class Office:
    """A session, its stores and any number of workers on them."""

    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.table = FakeJobTable(clock=self.clock)
        self.jobs = FakeJobStore(self.table)
        self.lock = FakeSessionLock(self.table)
        self.sessions = FakeSessionStore()
        self.runner = FakeRunner()
        self.sessions.create(
            session_id=SESSION,
            identity=identity("ann"),
            project_id=SESSION,
            embedding_model="hashed-256",
            dimension=256,
            pipeline_version="1",
        )
        self.objects = FakeObjectStore()
        self.calls = FakeWorkerCalls()
        self.keeper = SessionKeeper(
            sessions=self.sessions,
            jobs=self.jobs,
            lock=self.lock,
            objects=self.objects,
            calls=self.calls,
            clock=self.clock,
            lease=timedelta(seconds=60),
        )
        self.owners = 0

    def mailbox(self, runner: FakeRunner | None = None, **changed: Any) -> Mailbox:
        values: dict[str, Any] = {
            "sessions": self.sessions,
            "jobs": self.jobs,
            "lock": self.lock,
            "keeper": self.keeper,
            "runner": lambda: runner or self.runner,
            "clock": self.clock,
            "lease": timedelta(seconds=60),
            "retry": RetryPolicy(sleep=self.clock.sleep, draw=lambda: 1.0),
        }
        return Mailbox(**(values | changed))

    def drain(self, mailbox: Mailbox | None = None, *, remaining_s: Callable[[], float] = lambda: 900.0) -> None:
        self.owners += 1
        (mailbox or self.mailbox()).drain(SESSION, owner=f"worker-{self.owners}", remaining_s=remaining_s)

    def accept(self, number: int, *, kind: JobKind = JobKind.CHANGES) -> Job:
        self.jobs.create(job(job_id(number), session_id=SESSION, kind=kind))
        applied_seq = self.sessions.sessions[SESSION].applied_seq
        return self.jobs.accept(job_id(number), session_id=SESSION, object_version=None, applied_seq=applied_seq)

    def job(self, number: int) -> Job:
        found = self.jobs.get(job_id(number))
        assert found is not None
        return found

    def statuses(self, *numbers: int) -> list[str]:
        return [self.job(number).status.value for number in numbers]

    def phases(self, number: int) -> list[object]:
        events = self.jobs.events_after(job_id(number), 0)
        return [event.data.get("phase", event.name) for event in events]

    @property
    def free(self) -> bool:
        return self.table.session(SESSION).owner is None


@pytest.fixture
def office() -> Office:
    return Office()


def worked(office: Office) -> list[str]:
    return [found for found, _ in office.runner.ran]


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


def test_a_worker_that_finds_the_lock_taken_leaves(office: Office) -> None:
    office.accept(1)
    holder = office.lock.acquire(SESSION, owner="x", lease=timedelta(seconds=60), applied_seq=0, fence=0)
    assert holder is not None
    office.drain()
    assert office.runner.ran == []
    assert office.table.holds(holder)


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


def test_an_emptied_table_goes_on_where_postgres_stands(office: Office) -> None:
    session = office.sessions.sessions[SESSION]
    office.sessions.sessions[SESSION] = replace(session, applied_seq=41, fence=2**60)
    accepted = office.accept(1)
    office.drain()
    assert accepted.seq == 42
    assert office.statuses(1) == ["done"]
    assert office.runner.ran == [(job_id(1), 2**60 + 1)]
    assert office.free


def test_a_failure_of_the_lock_does_not_hide_the_first_failure(office: Office) -> None:
    def unreachable(held: Lease) -> None:
        raise StoreUnavailable("the lock")

    office.accept(1)
    office.lock.abandon = unreachable  # type: ignore[method-assign]
    with pytest.raises(HandedOver):
        office.drain(remaining_s=lambda: 1.0)
