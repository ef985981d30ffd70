"""Many senders, late and repeated events, holders that slept too long, sessions deleted under their workers."""

from __future__ import annotations

import os
import queue
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from strata.bootstrap import jobs, stores
from strata.model.jobs import Job, JobStatus
from tests.faults.conftest import impatient
from tests.faults.test_kills import PATHS, changes_of, content
from tests.support.fault_model import POINTS, Model, apply
from tests.support.fault_world import ANN, LEASE_S, World, killed, wait_until_stopped
from tests.support.index_statistics import assert_rows_agree
from tests.support.lambda_events import s3_event

CHANGES = int(os.environ.get("STRATA_FAULT_CHANGES", "100"))
"""How many changes the senders send in all (`make faults`: 500)."""
SENDERS = 8
RESERVE_MS = 20_000
"""Of its time a worker keeps so much to hand over."""
WORKERS = 2


class Platform:
    """S3 and Lambda in between: notifications come in batches, to a few workers at once, and some workers die."""

    def __init__(self, world: World, seed: int, kill_share: float) -> None:
        self.kills = 0
        self._world = world
        self._rng = random.Random(seed)
        self._kill_share = kill_share
        self._waiting: queue.Queue[Job | None] = queue.Queue()
        self._threads = [threading.Thread(target=self._work) for _ in range(WORKERS)]

    def notify(self, job: Job) -> None:
        self._waiting.put(job)

    def __enter__(self) -> Platform:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for _thread in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            records = s3_event(job.object_key, version=job.object_version)["Records"]
            fault = f"{self._rng.choice(POINTS)}:{self._rng.randrange(1, 6)}"
            if self._rng.random() > self._kill_share:
                fault = ""
            self.kills += killed(self._world.start("changes", {"Records": records}, fault=fault))


@pytest.mark.timeout(300 + 4 * CHANGES)
def test_many_senders_and_dying_workers_give_what_a_serial_model_gives(shared_world: World) -> None:
    session = "senders"
    first = shared_world.snapshot(session, {})
    sent: dict[str, list[dict[str, Any]]] = {}
    lock = threading.Lock()

    with Platform(shared_world, seed=11, kill_share=0.3) as platform:

        def send(sender: int) -> None:
            rng = random.Random(sender)
            for number in range(sender, CHANGES, SENDERS):
                changes = changes_of(rng)
                job = shared_world.changes(session, changes)
                with lock:
                    sent[job.job_id] = changes
                if number % 10 == sender % 10:  # most are found by a worker that is there already
                    platform.notify(job)

        with ThreadPoolExecutor(SENDERS) as pool:
            list(pool.map(send, range(SENDERS)))
    assert len(sent) == CHANGES
    everything = [stores.job_store().get(job_id) for job_id in [first.job_id, *sent]]
    jobs = sorted((job for job in everything if job is not None), key=lambda job: job.seq or 0)
    model = Model()
    for job in jobs:
        model.changes(sent.get(job.job_id, []))
    shared_world.finish(session, jobs, within_s=60 + CHANGES)
    shared_world.check(session, jobs, model)
    assert_rows_agree(shared_world.database.owner_url)


def test_every_event_three_times_in_any_order_changes_nothing(shared_world: World) -> None:
    rng, session = random.Random(5), "thrice"
    files = {path: content(rng, path) for path in PATHS}
    jobs, model = [shared_world.snapshot(session, files)], Model(files)
    for _ in range(6):
        changes = changes_of(rng, model.files)
        model.changes(changes)
        jobs.append(shared_world.changes(session, changes))
    deliveries = jobs * 3
    rng.shuffle(deliveries)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda job: shared_world.deliver(job).join(), deliveries))
    shared_world.finish(session, jobs)
    shared_world.check(session, jobs, model)


@pytest.fixture
def impatient_postgres(shared_world: World) -> Iterator[None]:
    with impatient(shared_world.database):
        yield


@pytest.mark.usefixtures("impatient_postgres")
@pytest.mark.parametrize(
    "point",
    ["after_plan", "after_commit_mark", "before_commit", "in_commit_before_its_end", "after_commit", "before_finish"],
)
def test_a_holder_that_slept_beyond_its_lease_changes_nothing(shared_world: World, point: str) -> None:
    session = f"asleep-{point}"
    files = {"docs/a.md": "# A\n\nOne.\n"}
    jobs = [shared_world.snapshot(session, files)]
    sleeper = shared_world.deliver(jobs[0], fault=f"{point}:1:STOP")
    wait_until_stopped(sleeper.pid)
    changes = [{"op": "upsert", "path": "docs/a.md", "content": "# Later\n"}]
    apply(files, changes)
    jobs.append(shared_world.changes(session, changes))
    shared_world.finish(session, jobs)
    os.kill(sleeper.pid, signal.SIGCONT)
    sleeper.join(30)
    assert sleeper.exitcode == 0
    shared_world.check(session, jobs, files)


def test_a_sleeper_can_not_commit_a_job_that_has_failed_meanwhile(shared_world: World) -> None:
    session = "failed-meanwhile"
    first = shared_world.snapshot(session, {"docs/a.md": "# A\n"})
    shared_world.deliver(first).join()
    second = shared_world.changes(session, [{"op": "delete", "path": "docs/a.md"}])
    sleeper = shared_world.deliver(second, fault="before_commit:1:STOP")
    wait_until_stopped(sleeper.pid)
    stores.object_store().remove_all(second.object_key, before=shared_world_later())
    shared_world.finish(session, [first, second])
    assert shared_world.job(second).status is JobStatus.ERROR
    os.kill(sleeper.pid, signal.SIGCONT)
    sleeper.join(30)
    assert list(shared_world.files(session)) == ["docs/a.md"]
    assert shared_world.generation(session) == 1


def shared_world_later() -> Any:
    from tests.support.fault_world import Later

    return Later().now()


def test_a_snapshot_that_takes_many_workers_time_comes_to_its_end(shared_world: World) -> None:
    session = "long"
    files = {f"docs/{number:04d}.md": f"# Page {number}\n\nText {number}.\n" for number in range(1_280)}
    job = shared_world.snapshot(session, files)
    workers = 0
    while not (found := shared_world.job(job)).status.ended:
        # A batch takes a second. What a worker needs around it is the machine's business: after one that came to
        # nothing, which counts as a start, the next ones get half as much time again.
        time_ms = round(1_500 * 1.5**found.starts)
        shared_world.deliver(job, remaining_ms=RESERVE_MS + time_ms, STRATA_TEST_EMBEDDER="slow=1.0").join()
        workers += 1
        assert workers < 60
    assert workers > 5  # more than a job may be begun without an end
    shared_world.finish(session, [job])
    shared_world.check(session, [job], files)


# --- deletion -------------------------------------------------------------------------------------------------------

DELETION_POINTS = (
    "after_seize",
    "after_delete",
    "in_purge",
    "after_objects",
    "before_end_of_purge",
    "after_end_of_purge",
)


def left_behind(world: World, session: str) -> dict[str, int]:
    """What is left of a deleted session anywhere."""
    queries = {
        "sessions": "SELECT count(*) FROM rag_sessions WHERE session_id = %(name)s",
        "files": "SELECT count(*) FROM rag_session_chunk_map WHERE session_id = %(name)s",
        "chunks": "SELECT count(*) FROM rag_chunks AS c WHERE NOT EXISTS"
        " (SELECT FROM rag_indexes AS i WHERE i.index_id = c.index_id)",
        "vectors": "SELECT count(*) FROM rag_chunk_vectors AS c WHERE NOT EXISTS"
        " (SELECT FROM rag_indexes AS i WHERE i.index_id = c.index_id)",
        "terms": "SELECT count(*) FROM rag_chunk_terms AS c WHERE NOT EXISTS"
        " (SELECT FROM rag_indexes AS i WHERE i.index_id = c.index_id)",
        "links": "SELECT count(*) FROM rag_links AS l WHERE NOT EXISTS"
        " (SELECT FROM rag_indexes AS i WHERE i.index_id = l.index_id)",
        "statistics": "SELECT count(*) FROM rag_index_terms AS t WHERE NOT EXISTS"
        " (SELECT FROM rag_indexes AS i WHERE i.index_id = t.index_id)",
        "blocks": "SELECT count(*) FROM rag_term_blocks AS b WHERE NOT EXISTS"
        " (SELECT FROM rag_indexes AS i WHERE i.index_id = b.index_id)",
        "cache": "SELECT count(*) FROM rag_blob_cache WHERE repo_id = %(name)s",
        "cached chunks": "SELECT count(*) FROM rag_chunk_cache AS c WHERE NOT EXISTS"
        " (SELECT FROM rag_blob_cache AS b WHERE b.blob_id = c.blob_id)",
        "cached links": "SELECT count(*) FROM rag_link_cache AS l WHERE NOT EXISTS"
        " (SELECT FROM rag_blob_cache AS b WHERE b.blob_id = l.blob_id)",
    }
    with psycopg.connect(world.database.owner_url) as connection:
        found = {
            name: connection.execute(query.encode(), {"name": session}).fetchone() for name, query in queries.items()
        }
    counts = {name: int(row[0]) for name, row in found.items() if row is not None}
    store = stores.object_store()
    pages = store.client.list_object_versions(Bucket=store.bucket, Prefix=f"uploads/{session}/")  # type: ignore[attr-defined]
    counts["objects"] = len(pages.get("Versions", []))
    table = stores.jobs_table()
    counts["items"] = len(table.query("pk = :pk", {":pk": f"session#{session}"}))
    counts["jobs"] = len(table.query("session_id = :name", {":name": session}, index="by_session"))
    return {name: count for name, count in counts.items() if count}


def purged(world: World, session: str, within_s: float = 120.0) -> None:
    limit = time.monotonic() + within_s
    while left_behind(world, session):
        assert time.monotonic() < limit, left_behind(world, session)
        for order in world.sweep()[1]:
            if order.session_id == session:
                world.obey(order).join()
        time.sleep(LEASE_S / 4)


@pytest.mark.parametrize("point", DELETION_POINTS)
def test_a_deletion_whose_worker_is_killed_is_completed(shared_world: World, point: str) -> None:
    from tests.support.lambda_events import ANN as CLAIMS
    from tests.support.lambda_events import rest_event

    session = f"deleted-{point}"
    job = shared_world.snapshot(session, {"docs/a.md": "# A\n\nOne.\n"}, project_id=session)
    shared_world.deliver(job).join()
    waiting = shared_world.changes(session, [{"op": "upsert", "path": "docs/b.md", "content": "# B\n"}])
    event = rest_event("DELETE", f"/api/rag/sessions/{session}", claims=CLAIMS)
    if point in ("after_seize", "after_delete"):
        assert killed(shared_world.start("snapshot_http", event, fault=point))
    else:
        shared_world.start("snapshot_http", event).join()
        ((order),) = [order for order in shared_world.sweep()[1] if order.session_id == session]
        assert killed(shared_world.obey(order, fault=point))
    shared_world.deliver(waiting).join()  # a notification of the old session, late
    purged(shared_world, session)

    again = shared_world.snapshot(session, {"docs/c.md": "# C\n"}, project_id=session)
    shared_world.deliver(again).join()
    shared_world.finish(session, [again])
    assert list(shared_world.files(session)) == ["docs/c.md"]
    assert shared_world.generation(session) > 2  # no cached candidate of the old session fits the new one


@pytest.mark.parametrize("point", ["before_cache_write", "before_commit", "before_finish"])
def test_a_worker_that_slept_through_the_deletion_brings_nothing_back(shared_world: World, point: str) -> None:
    session = f"reborn-{point}"
    job = shared_world.snapshot(session, {"docs/a.md": "# A\n\nOne.\n"}, project_id=session)
    sleeper = shared_world.deliver(job, fault=f"{point}:1:STOP")
    wait_until_stopped(sleeper.pid)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(stores.worker_calls()), "send", lambda *_: None)
        jobs.session_keeper().delete(ANN, session)
    purged(shared_world, session)
    os.kill(sleeper.pid, signal.SIGCONT)
    sleeper.join(30)
    assert left_behind(shared_world, session) == {}


def test_a_deleted_sessions_cache_stays_for_another_session_of_the_repository(shared_world: World) -> None:
    files = {"docs/a.md": "# Shared\n\nOne.\n"}
    for session in ("twin-1", "twin-2"):
        shared_world.deliver(shared_world.snapshot(session, files, project_id="twins")).join()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(stores.worker_calls()), "send", lambda *_: None)
        jobs.session_keeper().delete(ANN, "twin-1")
        purged(shared_world, "twin-1")
        with psycopg.connect(shared_world.database.owner_url) as connection:
            assert connection.execute("SELECT count(*) FROM rag_blob_cache WHERE repo_id = 'twins'").fetchone() == (1,)
        jobs.session_keeper().delete(ANN, "twin-2")
        purged(shared_world, "twin-2")
        with psycopg.connect(shared_world.database.owner_url) as connection:
            assert connection.execute("SELECT count(*) FROM rag_blob_cache WHERE repo_id = 'twins'").fetchone() == (0,)
