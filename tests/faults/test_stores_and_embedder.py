"""Postgres restarts under a worker; the embedder fails, is slow, or answers nonsense; readers look on."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from strata.bootstrap import stores as built
from strata.model.jobs import JobStatus
from tests.faults.conftest import stores
from tests.support.fault_model import lines_of
from tests.support.fault_world import World, wait_until_stopped, world
from tests.support.index_statistics import assert_rows_agree
from tests.support.restartable_postgres import RestartablePostgres, restartable_postgres

FILES = {f"docs/{number}.md": f"# Page {number}\n\nText of page {number}.\n" for number in range(40)}


PLACES = ["before_cache_write", "in_cache_write", "before_commit", "in_commit_after_writes"]
"""In prepare and in commit, outside of a transaction and inside of one."""
EVERY_RESTART = list(itertools.product(PLACES, [signal.SIGINT, signal.SIGQUIT], [0.0, 4.0]))
"""A restart or a crash; Postgres is back before the worker looks, or stays away for seconds."""
FEW_RESTARTS = [*((place, signal.SIGINT, 0.0) for place in PLACES), ("in_commit_after_writes", signal.SIGQUIT, 4.0)]
RESTARTS = EVERY_RESTART if "STRATA_FAULT_RUNS" in os.environ else FEW_RESTARTS


@pytest.fixture(scope="module")
def postgres_to_stop() -> Iterator[RestartablePostgres]:
    with restartable_postgres() as postgres:
        yield postgres


@pytest.fixture(scope="module")
def frail_world(postgres_to_stop: RestartablePostgres, aws_endpoint: str) -> Iterator[World]:
    with (
        postgres_to_stop.server.fresh_database() as database,
        world(database, *stores(aws_endpoint)) as made,
    ):
        yield made


@pytest.mark.parametrize(("point", "how", "away_s"), RESTARTS)
def test_postgres_restarts_under_a_worker(
    frail_world: World, postgres_to_stop: RestartablePostgres, point: str, how: signal.Signals, away_s: float
) -> None:
    session = f"restart-{point}-{how.name}-{away_s:g}"
    files = {f"{session}/{path}": text for path, text in FILES.items()}
    job = frail_world.snapshot(session, files)
    worker = frail_world.deliver(job, fault=f"{point}:1:STOP")
    wait_until_stopped(worker.pid)
    postgres_to_stop.stop(how)
    try:
        if away_s:
            os.kill(worker.pid, signal.SIGCONT)
            time.sleep(away_s)
    finally:
        postgres_to_stop.start()
    with suppress(ProcessLookupError):  # one that went on without a database has given up by now
        os.kill(worker.pid, signal.SIGCONT)
    worker.join(60)
    assert worker.exitcode is not None
    frail_world.finish(session, [job])
    frail_world.check(session, [job], files)
    assert_rows_agree(frail_world.database.owner_url)


@pytest.mark.parametrize("faults", ["failing=0.3", "slow=0.4", "failing=0.3,slow=0.1"])
def test_an_embedder_that_fails_or_is_slow_costs_nothing_but_time(shared_world: World, faults: str) -> None:
    session = f"embedder-{faults.replace('=', '-').replace(',', '-')}"
    files = {f"{session}/{number}.md": f"# Page {number}\n\nText {number}.\n" for number in range(400)}
    job = shared_world.snapshot(session, files)
    shared_world.deliver(job, STRATA_TEST_EMBEDDER=f"{faults},seed=7").join()
    shared_world.finish(session, [job], STRATA_TEST_EMBEDDER=f"{faults},seed=8")
    shared_world.check(session, [job], files)


@pytest.mark.parametrize("faults", ["short=0.3", "nan=0.3", "short=0.2,nan=0.2,failing=0.2"])
def test_nonsense_of_the_embedder_never_gets_into_the_index(shared_world: World, faults: str) -> None:
    session = f"nonsense-{faults.replace('=', '-').replace(',', '-')}"
    files = {f"{session}/{number}.md": f"# Page {number}\n\nText {number}.\n" for number in range(200)}
    job = shared_world.snapshot(session, files)
    shared_world.deliver(job, STRATA_TEST_EMBEDDER=f"{faults},seed=3").join()
    shared_world.finish(session, [job], STRATA_TEST_EMBEDDER=f"{faults},seed=4")
    ended = shared_world.job(job)
    assert ended.status is JobStatus.DONE
    counters = ended.report.counters
    assert counters.indexed_files + counters.failed_files == len(files)
    assert counters.indexed_files == len(shared_world.files(session)) > 0
    failed = {file.path: file.reason for file in ended.report.failed}
    assert all("embedder" in reason for reason in failed.values())
    expected = {path: text for path, text in files.items() if path in shared_world.files(session)}
    assert shared_world.chunks(session) == shared_world.reference(f"{session}.reference", lines_of(expected))


def test_a_reader_through_a_hundred_swaps_sees_one_snapshot_each_time(shared_world: World) -> None:
    """Each snapshot writes its number into every file and has other paths than the one before."""
    session, swaps = "swaps", 100
    stop, faults, looks = threading.Event(), [], []

    def files_of(number: int) -> dict[str, str]:
        return {f"docs/{number % 3}-{each}.md": f"# Snapshot {number}\n\nPart {each}.\n" for each in range(6)}

    def read() -> None:
        with psycopg.connect(shared_world.database.query_url, autocommit=True) as connection:
            while not stop.is_set():
                with connection.transaction():
                    connection.execute("SELECT set_config('strata.tenant', 'acme', true)")
                    connection.execute("SELECT set_config('strata.principals', '[\"user:ann\"]', true)")
                    rows = connection.execute(
                        "SELECT s.generation, c.path, substring(c.content from 'Snapshot ([0-9]+)')"
                        " FROM rag_sessions AS s JOIN rag_chunks AS c ON c.index_id = s.active_index_id"
                        " WHERE s.session_id = %s AND c.layer LIKE 'D3%%'",
                        (session,),
                    ).fetchall()
                looks.append(len(rows))
                numbers = {number for _, _, number in rows}
                paths = {path for _, path, _ in rows}
                if len(numbers) != 1 or paths != set(files_of(int(next(iter(numbers)) or -1))):
                    faults.append(rows)

    jobs = [shared_world.snapshot(session, files_of(0))]
    shared_world.deliver(jobs[0]).join()
    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, swaps + 1):
            jobs.append(shared_world.snapshot(session, files_of(number)))
            if number % 10 == 0:
                shared_world.deliver(jobs[-1]).join()
    finally:
        stop.set()
        reader.join()
    shared_world.finish(session, jobs)
    assert faults == []
    assert len(looks) > swaps
    shared_world.check(session, jobs, files_of(swaps))
    assert built.job_store().get(jobs[-1].job_id) is not None
