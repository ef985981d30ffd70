"""What is stored of jobs, their ends and their events.

The fake and the DynamoDB adapter keep the same promises.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from strata.errors import Conflict, JobNotChangeable, JobNotFound
from strata.model.chat import ModelUsage
from strata.model.corpus import ReportedFile
from strata.model.jobs import Counters, JobReport, JobStatus
from strata.storage.dynamodb.client import Item, Table
from strata.storage.dynamodb.jobs import DynamoJobStore
from strata.storage.dynamodb.lock import DynamoSessionLock
from tests.support.factories import job, job_id
from tests.support.fake_clock import FakeClock
from tests.support.job_kit import SESSION, Kit


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
