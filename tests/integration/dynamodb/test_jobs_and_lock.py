"""One suite for `JobStore` and `SessionLock`: the fake and the DynamoDB adapter keep the same promises."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from strata.errors import Conflict, JobCancelled, JobNotChangeable, JobNotFound, LockLost, SessionNotFound
from strata.model.chat import ModelUsage
from strata.model.corpus import ReportedFile
from strata.model.jobs import Counters, Job, JobReport, JobStatus, Lease
from strata.ports.jobs import JobStore
from strata.ports.locking import SessionLock
from strata.storage.dynamodb.client import Item, Table
from strata.storage.dynamodb.jobs import DynamoJobStore
from strata.storage.dynamodb.lock import DynamoSessionLock
from tests.support.job_fakes import FakeClock, FakeJobStore, FakeJobTable, FakeSessionLock, job, job_id

LEASE = timedelta(seconds=60)
SESSION = "docs"


@dataclass
class Kit:
    jobs: JobStore
    lock: SessionLock
    clock: FakeClock

    def accepted(self, number: int, *, applied_seq: int = 0) -> Job:
        created_at = self.clock.now() + timedelta(seconds=number)
        self.jobs.create(job(job_id(number), session_id=SESSION, created_at=created_at))
        return self.jobs.accept(job_id(number), session_id=SESSION, object_version="v1", applied_seq=applied_seq)

    def acquire(self, owner: str, *, applied_seq: int = 0, fence: int = 0) -> Lease | None:
        return self.lock.acquire(SESSION, owner=owner, lease=LEASE, applied_seq=applied_seq, fence=fence)

    def held(self, owner: str = "a", *, applied_seq: int = 0) -> Lease:
        lease = self.acquire(owner, applied_seq=applied_seq)
        assert lease is not None
        return lease

    def done(self, found: Job, lease: Lease, *, report: JobReport | None = None) -> Job:
        ended = replace(found, status=JobStatus.DONE, report=report or JobReport())
        self.jobs.finish(ended, lease)
        return ended


@pytest.fixture(params=["fake", "dynamodb"])
def kit(request: pytest.FixtureRequest) -> Kit:
    clock = FakeClock()
    if request.param == "fake":
        shared = FakeJobTable(clock=clock)
        return Kit(FakeJobStore(shared), FakeSessionLock(shared), clock)
    table = Table(client=request.getfixturevalue("dynamodb"), name=request.getfixturevalue("jobs_table"))
    return Kit(DynamoJobStore(table=table, clock=clock), DynamoSessionLock(table=table, clock=clock), clock)


def test_a_job_comes_back_as_it_was_created(kit: Kit) -> None:
    made = job()
    kit.jobs.create(made)
    assert kit.jobs.get(made.job_id) == made


def test_an_unknown_job_is_none(kit: Kit) -> None:
    assert kit.jobs.get(job_id(404)) is None


def test_a_job_id_is_used_once(kit: Kit) -> None:
    kit.jobs.create(job())
    with pytest.raises(Conflict):
        kit.jobs.create(job())


def test_jobs_of_a_session_are_listed_newest_first_up_to_a_limit(kit: Kit) -> None:
    for number in (1, 2, 3):
        kit.accepted(number)
    kit.jobs.create(job(job_id(4), session_id="another"))
    assert [found.job_id for found in kit.jobs.for_session(SESSION, limit=2)] == [job_id(3), job_id(2)]


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


def test_an_emptied_table_goes_on_after_what_postgres_has_applied(kit: Kit) -> None:
    accepted = kit.accepted(1, applied_seq=41)
    assert accepted.seq == 42
    lease = kit.held(applied_seq=41)
    assert kit.jobs.next_queued(SESSION) == accepted
    kit.done(accepted, lease)
    assert kit.jobs.next_queued(SESSION) is None
    assert kit.lock.release(lease)


def test_a_restored_table_skips_what_postgres_has_applied_already(kit: Kit) -> None:
    kit.accepted(1)
    newer = kit.accepted(2, applied_seq=7)
    assert newer.seq == 8
    assert kit.jobs.next_queued(SESSION) == newer


def test_acquiring_seeds_the_order_too(kit: Kit) -> None:
    lease = kit.held(applied_seq=12)
    assert kit.jobs.next_queued(SESSION) is None
    assert kit.lock.release(lease)
    assert kit.accepted(1, applied_seq=12).seq == 13


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


def test_finishing_keeps_the_report_and_ends_with_a_terminal_event(kit: Kit) -> None:
    lease = kit.held()
    report = JobReport(
        counters=Counters(indexed_files=3, failed_files=1, skipped_files=1),
        chunks=17,
        generation=4,
        skipped=(ReportedFile(path="a.bin", reason="binary"),),
        failed=(ReportedFile(path="страница.md", reason="broken \udcff text"),),
        notes=(
            ReportedFile(path="b.py", reason="no symbols", line=3, acl=("group:red", "user:ann")),
            ReportedFile(path="c.md", reason="too large", acl=()),
        ),
        note_count=9,
        usage=ModelUsage(calls=2, input_tokens=300, output_tokens=40, cost=0.5),
    )
    ended = kit.done(kit.jobs.start(kit.accepted(1).job_id, lease), lease, report=report)
    stored = kit.jobs.get(ended.job_id)
    assert stored is not None
    assert (stored.status, stored.report.counters, stored.report.chunks) == (JobStatus.DONE, report.counters, 17)
    assert (stored.report.generation, stored.report.skipped) == (4, report.skipped)
    assert stored.report.usage == report.usage
    assert stored.report.failed[0].path == "страница.md"
    assert (stored.report.notes, stored.report.note_count) == (report.notes, 9)
    assert [event.name for event in kit.jobs.events_after(ended.job_id, 0)] == ["index_status", "terminal"]


def test_finishing_twice_does_it_once(kit: Kit) -> None:
    lease = kit.held()
    running = kit.jobs.start(kit.accepted(1).job_id, lease)
    kit.done(running, lease)
    kit.jobs.finish(replace(running, status=JobStatus.ERROR), lease)
    stored = kit.jobs.get(running.job_id)
    assert stored is not None
    assert stored.status is JobStatus.DONE
    assert len(kit.jobs.events_after(running.job_id, 0)) == 2


@pytest.mark.parametrize("status", [JobStatus.QUEUED, JobStatus.RUNNING])
def test_finishing_needs_an_end(kit: Kit, status: JobStatus) -> None:
    with pytest.raises(ValueError, match="job"):
        kit.jobs.finish(replace(kit.accepted(1), status=status), kit.held())


def test_a_rejected_job_ends_without_a_place_in_the_order(kit: Kit) -> None:
    made = job(session_id=SESSION)
    kit.jobs.create(made)
    for _ in range(2):
        kit.jobs.reject(replace(made, status=JobStatus.EXPIRED, error_code="expired"))
    stored = kit.jobs.get(made.job_id)
    assert stored is not None
    assert (stored.status, stored.seq) == (JobStatus.EXPIRED, None)
    assert [event.name for event in kit.jobs.events_after(made.job_id, 0)] == ["terminal"]
    with pytest.raises(JobNotChangeable):
        kit.jobs.accept(made.job_id, session_id=SESSION, object_version=None, applied_seq=0)
    assert kit.jobs.next_queued(SESSION) is None


def test_an_accepted_job_is_not_rejected(kit: Kit) -> None:
    found = kit.accepted(1)
    with pytest.raises(JobNotChangeable):
        kit.jobs.reject(replace(found, status=JobStatus.EXPIRED))
    assert kit.jobs.get(found.job_id) == found


def test_events_are_numbered_without_gaps_whoever_appends(kit: Kit) -> None:
    found = kit.accepted(1)
    with ThreadPoolExecutor(6) as pool:
        numbers = list(pool.map(lambda n: kit.jobs.append_event(found.job_id, "index_status", {"n": n}).seq, range(12)))
    assert sorted(numbers) == list(range(2, 14))
    assert [event.seq for event in kit.jobs.events_after(found.job_id, 5)] == list(range(6, 14))
    assert kit.jobs.events_after(found.job_id, 13) == []


def test_writers_in_several_processes_number_events_without_gaps(dynamodb: Any, jobs_table: str) -> None:
    clock, queries = FakeClock(), []

    class Watched(Table):
        def query(self, *arguments: Any, **options: Any) -> list[Item]:
            queries.append(arguments)
            return super().query(*arguments, **options)

    def process() -> Kit:
        table = Watched(client=dynamodb, name=jobs_table)
        return Kit(DynamoJobStore(table=table, clock=clock), DynamoSessionLock(table=table, clock=clock), clock)

    one, other = process(), process()
    accepted = one.accepted(1)
    queries.clear()
    for _ in range(5):
        one.jobs.append_event(accepted.job_id, "index_status", {})
    assert len(queries) == 1  # then it knows its own last number
    for kit in (other, one, other, other, one):
        kit.jobs.append_event(accepted.job_id, "index_status", {})
    one.done(one.jobs.start(accepted.job_id, lease := one.held()), lease)
    for kit in (one, other):
        with pytest.raises(JobNotChangeable):
            kit.jobs.append_event(accepted.job_id, "index_status", {})
    seqs = [event.seq for event in one.jobs.events_after(accepted.job_id, 0)]
    assert seqs == list(range(1, 13))


def test_no_event_of_a_deleted_job_is_left(dynamodb: Any, jobs_table: str) -> None:
    clock, table = FakeClock(), Table(client=dynamodb, name=jobs_table)
    kit = Kit(DynamoJobStore(table=table, clock=clock), DynamoSessionLock(table=table, clock=clock), clock)
    accepted = kit.accepted(1)
    kit.jobs.append_event(accepted.job_id, "index_status", {})
    kit.jobs.remove_session(SESSION, before=clock.now() + timedelta(days=1))
    with pytest.raises(JobNotFound):
        kit.jobs.append_event(accepted.job_id, "index_status", {})
    assert table.query("pk = :pk", {":pk": f"job#{accepted.job_id}"}) == []


def test_nothing_follows_a_terminal_event(kit: Kit) -> None:
    lease = kit.held()
    kit.done(kit.accepted(1), lease)
    with pytest.raises(JobNotChangeable):
        kit.jobs.append_event(job_id(1), "index_status", {})
    with pytest.raises(JobNotFound):
        kit.jobs.append_event(job_id(2), "index_status", {})


def test_the_lock_is_held_by_one(kit: Kit) -> None:
    held = kit.held("a")
    assert kit.acquire("b") is None
    kit.lock.release(held)
    assert kit.held("b").fence > held.fence


def test_of_parallel_acquires_one_wins(kit: Kit) -> None:
    with ThreadPoolExecutor(8) as pool:
        leases = list(pool.map(lambda n: kit.acquire(f"worker-{n}"), range(8)))
    assert len([lease for lease in leases if lease is not None]) == 1


def test_acquiring_again_after_a_lost_reply_gives_the_same_lease(kit: Kit) -> None:
    assert kit.held("a") == kit.held("a")


def test_a_dead_holder_is_followed_after_its_lease_and_a_margin(kit: Kit) -> None:
    dead = kit.held("dead")
    kit.clock.sleep(60.5)
    assert kit.acquire("next") is None
    kit.clock.sleep(2)
    assert kit.held("next").fence > dead.fence


def test_a_renewed_lease_lasts(kit: Kit) -> None:
    held = kit.held("a")
    kit.clock.sleep(50)
    renewed = kit.lock.renew(held, lease=LEASE)
    assert renewed.expires_at > held.expires_at
    assert renewed.fence == held.fence
    kit.clock.sleep(50)
    assert kit.acquire("b") is None


def test_an_expired_lease_is_renewed_as_long_as_nobody_took_over(kit: Kit) -> None:
    held = kit.held("a")
    kit.clock.sleep(100)
    kit.lock.renew(held, lease=LEASE)
    assert kit.acquire("b") is None


def test_a_lost_lock_is_neither_renewed_nor_released(kit: Kit) -> None:
    paused = kit.held("paused")
    kit.clock.sleep(63)
    holder = kit.held("holder")
    with pytest.raises(LockLost):
        kit.lock.renew(paused, lease=LEASE)
    assert kit.lock.release(paused)
    kit.lock.abandon(paused)
    assert kit.acquire("third") is None
    assert kit.lock.renew(holder, lease=LEASE).fence == holder.fence


def test_a_released_lock_is_not_renewed(kit: Kit) -> None:
    held = kit.held("a")
    assert kit.lock.release(held)
    with pytest.raises(LockLost):
        kit.lock.renew(held, lease=LEASE)


def test_a_lock_is_not_released_while_a_job_waits(kit: Kit) -> None:
    held = kit.held("a")
    found = kit.accepted(1)
    assert not kit.lock.release(held)
    assert kit.acquire("b") is None
    kit.done(found, held)
    assert kit.lock.release(held)


def test_an_abandoned_lock_is_free_whatever_waits(kit: Kit) -> None:
    held = kit.held("a")
    kit.accepted(1)
    kit.lock.abandon(held)
    assert kit.held("b").fence > held.fence


def test_fences_grow_beyond_time_and_beyond_postgres(kit: Kit) -> None:
    first = kit.held("a")
    assert first.fence >= int(kit.clock.now().timestamp() * 1000)
    kit.lock.release(first)
    far = first.fence + 1_000_000
    second = kit.acquire("b", fence=far)
    assert second is not None
    assert second.fence == far + 1


def test_the_session_goes_on_when_a_job_of_its_order_is_gone(kit: Kit) -> None:
    lease = kit.held()
    kit.accepted(1)
    kept = kit.accepted(2)
    if isinstance(kit.jobs, FakeJobStore):
        del kit.jobs.table.jobs[job_id(1)]
    elif isinstance(kit.jobs, DynamoJobStore):
        table = kit.jobs.table
        table.client.delete_item(TableName=table.name, Key={"pk": {"S": f"job#{job_id(1)}"}, "sk": {"S": "job"}})
    assert kit.jobs.next_queued(SESSION) == kept
    kit.done(kept, lease)
    assert kit.lock.release(lease)


def test_a_lost_order_is_rebuilt_from_the_places_that_were_given_out(kit: Kit) -> None:
    first, second = kit.accepted(1), kit.accepted(2)
    if isinstance(kit.jobs, FakeJobStore):
        kit.jobs.table.sessions.clear()
    elif isinstance(kit.jobs, DynamoJobStore):
        table = kit.jobs.table
        table.client.delete_item(TableName=table.name, Key={"pk": {"S": f"session#{SESSION}"}, "sk": {"S": "order"}})
    third = kit.accepted(3, applied_seq=1)
    assert (first.seq, third.seq) == (1, 3)
    assert kit.jobs.next_queued(SESSION) == second


# --- lists: what somebody must look after ----------------------------------------------------------------------------


def waiting(kit: Kit, *, after: timedelta = timedelta()) -> list[str]:
    return kit.jobs.waiting_sessions(kit.clock.now() + after, limit=10)


def test_a_session_waits_from_its_first_accepted_job_until_it_is_released(kit: Kit) -> None:
    accepted = kit.accepted(1)
    assert (waiting(kit), waiting(kit, after=timedelta(seconds=30))) == ([], [SESSION])
    lease = kit.held()
    assert (waiting(kit, after=timedelta(seconds=59)), waiting(kit, after=LEASE)) == ([], [SESSION])
    kit.clock.sleep(20)
    kit.lock.renew(lease, lease=LEASE)
    assert waiting(kit, after=timedelta(seconds=59)) == []
    kit.jobs.start(accepted.job_id, lease)
    kit.done(accepted, lease)
    assert kit.lock.release(lease)
    assert waiting(kit, after=timedelta(days=1)) == []


def test_an_abandoned_session_waits_at_once(kit: Kit) -> None:
    kit.accepted(1)
    kit.lock.abandon(kit.held())
    assert waiting(kit) == [SESSION]
    kit.lock.forget(SESSION)
    assert waiting(kit, after=timedelta(days=1)) == []


def test_only_uploads_that_are_late_are_listed(kit: Kit) -> None:
    until = kit.clock.now() + timedelta(hours=1)
    for number in (1, 2, 3):
        kit.jobs.create(replace(job(job_id(number), session_id=SESSION), upload_until=until))
    kit.jobs.accept(job_id(1), session_id=SESSION, object_version=None, applied_seq=0)
    kit.jobs.cancel(job_id(2))
    assert kit.jobs.late_uploads(until - timedelta(seconds=1), limit=10) == []
    assert [late.job_id for late in kit.jobs.late_uploads(until, limit=10)] == [job_id(3)]


# --- cancel and commit -----------------------------------------------------------------------------------------------


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


# --- failed jobs -----------------------------------------------------------------------------------------------------


def test_a_failed_job_is_listed_until_it_is_put_back_once(kit: Kit) -> None:
    accepted, lease = kit.accepted(1), kit.held()
    kit.jobs.start(accepted.job_id, lease)
    kit.jobs.finish(replace(accepted, status=JobStatus.ERROR, error_code="x", error_message="X."), lease)
    (failed,) = kit.jobs.failed(accepted.tenant)
    assert kit.jobs.failed("other") == []
    kit.jobs.put_back(failed, job(job_id(2), session_id=SESSION))
    assert kit.jobs.failed(accepted.tenant) == []
    stored = kit.jobs.get(accepted.job_id)
    assert stored is not None
    assert stored.retried_as == job_id(2)
    with pytest.raises(JobNotChangeable):
        kit.jobs.put_back(failed, job(job_id(3), session_id=SESSION))
    assert kit.jobs.get(job_id(3)) is None


# --- the deletion of a session ---------------------------------------------------------------------------------------


def test_a_deletion_takes_the_lock_from_its_holder_and_stays_with_the_session(kit: Kit) -> None:
    accepted, lease = kit.accepted(1), kit.held()
    seized = kit.lock.seize(SESSION, owner="delete", lease=LEASE, applied_seq=0, fence=0)
    assert seized.fence > lease.fence
    assert seized.deletion == seized.fence == kit.lock.deletion(SESSION)
    with pytest.raises(LockLost):
        kit.lock.renew(lease, lease=LEASE)
    with pytest.raises(LockLost):
        kit.jobs.start(accepted.job_id, lease)
    kit.jobs.create(job(job_id(2), session_id=SESSION))
    with pytest.raises(SessionNotFound):
        kit.jobs.accept(job_id(2), session_id=SESSION, object_version=None, applied_seq=0)
    kit.lock.abandon(seized)
    kit.lock.forget(SESSION)
    assert waiting(kit) == [SESSION]
    later = kit.held("purger")
    assert (later.deletion, kit.lock.release(later)) == (seized.fence, False)
    kit.lock.remove(later)
    assert kit.lock.deletion(SESSION) is None
    with pytest.raises(LockLost):
        kit.lock.remove(later)


def test_what_is_older_than_the_purge_goes_and_the_rest_stays(kit: Kit) -> None:
    old, new = kit.accepted(1), kit.accepted(100)
    kit.jobs.remove_session(SESSION, before=kit.clock.now() + timedelta(seconds=50))
    kit.jobs.remove_session(SESSION, before=kit.clock.now() + timedelta(seconds=50))
    assert kit.jobs.get(old.job_id) is None
    assert kit.jobs.events_after(old.job_id, 0) == []
    assert kit.jobs.get(new.job_id) == new
    assert len(kit.jobs.events_after(new.job_id, 0)) == 1
