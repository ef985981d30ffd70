"""Stores for fault tests, and workers on them as processes that can be killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from strata.bootstrap import environment, jobs, stores
from strata.jobs.fault_points import VARIABLE as FAULT_POINT
from strata.jobs.sweeping import Sweep, Swept
from strata.model.access import Identity
from strata.model.jobs import Job, JobKind, JobStatus
from strata.ports.workers import WorkOrder
from strata.storage.dynamodb.order import Order, read_order
from strata.storage.postgres.connection import Database
from strata.storage.postgres.search import PostgresSearch
from tests.support import fault_worker
from tests.support.built import forget_what_was_built
from tests.support.fault_model import Files, Held, Line, Model, lines_of
from tests.support.lambda_events import s3_event
from tests.support.postgres import TestDatabase
from tests.support.uploads import json_lines

ANN = Identity(subject="ann", tenant="acme")
BOB = Identity(subject="bob", tenant="acme")
CAT = Identity(subject="cat", tenant="acme", groups=("crew",))
READERS = (ANN, BOB, CAT)
"""Ann owns the sessions; a file may still have a list without her."""
LEASE_S = 1.0


@dataclass
class Calls:
    """`WorkerCalls` that remember whom the sweep called for."""

    orders: list[WorkOrder] = field(default_factory=list)

    def send(self, order: WorkOrder) -> None:
        self.orders.append(order)


@dataclass(frozen=True)
class Later:
    """A clock ahead of the real one: the sweep of the next minute, without the wait."""

    by: timedelta = timedelta(minutes=1)

    def now(self) -> datetime:
        return environment.clock().now() + self.by


@dataclass
class World:
    """One set of stores. In this process it takes requests and looks at the end; only workers touch the index."""

    database: TestDatabase
    environment: dict[str, str]
    processes: Any = field(init=False)
    search: Database = field(init=False)

    def __post_init__(self) -> None:
        self.search = Database(self.database.query_url)
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload([fault_worker.__name__])

    # --- requests ---

    def snapshot(self, session_id: str, files: Files, *, project_id: str = "shop", reindex: bool = False) -> Job:
        return self.snapshot_of(session_id, lines_of(files), project_id=project_id, reindex=reindex)

    def snapshot_of(
        self, session_id: str, lines: Sequence[Line], *, project_id: str = "shop", reindex: bool = False
    ) -> Job:
        opened = jobs.lifecycle().open_snapshot(
            ANN,
            session_id=session_id,
            project_id=project_id,
            readers=[BOB.user, "group:crew"],
            inline=json_lines(*lines),
            reindex=reindex,
        )
        return opened.job

    def roll_back(self, session_id: str) -> Job:
        return jobs.lifecycle().open_roll_back(ANN, session_id)

    def changes(self, session_id: str, changes: Sequence[Mapping[str, Any]]) -> Job:
        return jobs.lifecycle().open_changes(ANN, session_id, json_lines(*changes))

    def foreign(self, session_id: str, changes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Changes that some S3 client puts under a name of its own: the event; nobody has accepted them yet."""
        key = f"changes/{session_id}/by another hand+1.jsonl"
        stored = stores.object_store().put(key, json_lines(*changes), content_type="application/x-ndjson")
        return s3_event(key, version=stored.version)

    # --- workers ---

    def start(
        self, handler: str, event: dict[str, Any], *, fault: str = "", remaining_ms: int = 900_000, **environment: str
    ) -> Any:
        """A worker's process, at work."""
        given = {**self.environment, **environment, FAULT_POINT: fault}
        process = self.processes.Process(target=fault_worker.work, args=(given, handler, event, remaining_ms))
        process.start()
        return process

    def deliver(self, job: Job, **options: Any) -> Any:
        """The notification about a job's object, in a new process."""
        handler = "uploads" if job.kind is JobKind.SNAPSHOT else "changes"
        return self.start(handler, s3_event(job.object_key, version=job.object_version), **options)

    def obey(self, order: WorkOrder, **options: Any) -> Any:
        return self.start("changes", {"strata": {"session_id": order.session_id, "job_id": order.job_id}}, **options)

    def sweep(self) -> tuple[Swept, list[WorkOrder]]:
        calls = Calls()
        swept = Sweep(jobs=stores.job_store(), objects=stores.object_store(), calls=calls, clock=Later()).run()
        return swept, calls.orders

    # --- what is there ---

    def order(self, session_id: str) -> Order:
        return read_order(stores.jobs_table(), session_id)

    def job(self, job: Job) -> Job:
        found = stores.job_store().get(job.job_id)
        assert found is not None
        return found

    def files(self, session_id: str) -> dict[str, str]:
        """What the live index says that it holds: hashes by path."""
        return {path: blob_sha for path, (blob_sha, _) in self.applied(session_id)[1].items()}

    def applied(self, session_id: str) -> tuple[int, Held]:
        """The place of the job that was applied last, and what the live index then says that it holds."""
        rows = self._rows(
            "SELECT s.applied_seq, m.path, m.blob_sha, m.acl FROM rag_sessions AS s"
            " LEFT JOIN rag_session_chunk_map AS m ON m.index_id = s.active_index_id WHERE s.session_id = %s",
            session_id,
        )
        held = {path: (sha, None if acl is None else tuple(acl)) for _, path, sha, acl in rows if path is not None}
        return rows[0][0], held

    def readable(self, session_id: str, identity: Identity) -> set[str]:
        """The files that a reader finds, under the role of real questions."""
        search, paths = PostgresSearch(self.search), list[str]()
        while page := search.file_page(
            session_id, identity, after=paths[-1] if paths else "", limit=1_000, most_bytes=2**30
        ):
            paths += [file.path for file in page]
        return set(paths)

    def links(self, session_id: str) -> list[tuple[Any, ...]]:
        return self._rows(
            "SELECT l.path, l.acl, l.kind, l.symbol, l.target, l.key, l.is_path, l.line FROM rag_sessions AS s"
            " JOIN rag_links AS l ON l.index_id = s.active_index_id WHERE s.session_id = %s ORDER BY 1, 8, 3, 4, 5",
            session_id,
        )

    def indexes(self, session_id: str) -> int:
        ((count,),) = self._rows("SELECT count(*) FROM rag_indexes WHERE session_id = %s", session_id)
        return int(count)

    def chunks(self, session_id: str) -> list[tuple[Any, ...]]:
        """The rows that readers see, without their numbers."""
        return self._rows(
            "SELECT c.path, c.layer, c.ordinal, c.title, c.content, c.span_start, c.span_end, c.blob_sha, c.acl,"
            " v.embedding::text FROM rag_sessions AS s JOIN rag_chunks AS c ON c.index_id = s.active_index_id"
            " LEFT JOIN rag_chunk_vectors AS v USING (index_id, chunk_id) WHERE s.session_id = %s ORDER BY 1, 2, 3",
            session_id,
        )

    def generation(self, session_id: str) -> int:
        ((generation,),) = self._rows("SELECT generation FROM rag_sessions WHERE session_id = %s", session_id)
        return int(generation)

    def _rows(self, query: str, session_id: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database.owner_url) as connection:
            return connection.execute(query.encode(), (session_id,)).fetchall()

    # --- judgement ---

    def finish(self, session_id: str, jobs: Sequence[Job], *, within_s: float = 180.0, **options: Any) -> None:
        """What the platform does by itself: sweeps, until nothing waits."""
        limit = time.monotonic() + within_s
        while True:
            order = self.order(session_id)
            idle = order.accepted_seq == order.done_seq and order.lease_until_ms == 0
            if idle and all(self.job(job).status.ended for job in jobs):
                return
            if time.monotonic() > limit:
                raise AssertionError(f"{session_id} does not come to its end: {order}")
            if order.lease_until_ms:  # a worker that came now would only find the lock taken
                time.sleep(_leased_s(order))
            for called in self.sweep()[1]:
                if called.session_id == session_id:
                    self.obey(called, **options).join()
            time.sleep(0.05)

    def let_the_lease_end(self, session_id: str) -> None:
        """Whoever held the lock may be followed."""
        time.sleep(_leased_s(self.order(session_id)))

    def check_readers(self, session_id: str, states: Callable[[int], Model]) -> None:
        """Readers see the files and rights that some number of jobs, in their order, give: `states` says which."""
        applied_seq, held = self.applied(session_id)
        model = states(applied_seq)
        assert held == model.held
        for reader in READERS:
            assert self.readable(session_id, reader) == model.readable(reader)

    def check(
        self, session_id: str, jobs: Sequence[Job], files: Files | Model, *, cancelled: Collection[str] = frozenset()
    ) -> None:
        """The index is what the jobs in their order give, every job has ended once, and the lock is free."""
        model = files if isinstance(files, Model) else Model(dict(files))
        ended = [self.job(job) for job in jobs]
        assert [(job.status, job.error_message) for job in ended] == [
            (JobStatus.CANCELLED if job.job_id in cancelled else JobStatus.DONE, None) for job in jobs
        ]
        assert sorted(job.seq or 0 for job in ended) == list(range(1, len(jobs) + 1))
        for job in ended:
            events = stores.job_store().events_after(job.job_id, 0)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert [event.name for event in events].count("terminal") == 1
            assert events[-1].name == "terminal"
        order = self.order(session_id)
        assert (order.accepted_seq, order.done_seq, order.lease_until_ms, order.lock_owner) == (
            len(jobs),
            len(jobs),
            0,
            None,
        )
        item = stores.jobs_table().get({"pk": f"session#{session_id}", "sk": "order"})
        assert item is not None
        assert "list_name" not in item
        assert self.generation(session_id) == len(jobs) - len(cancelled)
        self.check_readers(session_id, lambda _: model)
        assert self.indexes(session_id) <= 2  # the live one and the one before
        reference = f"{session_id}.reference"
        assert self.chunks(session_id) == self.reference(reference, model.lines)
        assert self.links(session_id) == self.links(reference)

    def reference(self, session_id: str, lines: Sequence[Line]) -> list[tuple[Any, ...]]:
        """The rows of the same files, indexed in one go by a worker that nobody disturbs."""
        job = self.snapshot_of(session_id, lines)
        process = self.deliver(job)
        process.join()
        assert self.job(job).status is JobStatus.DONE
        return self.chunks(session_id)


def _leased_s(order: Order) -> float:
    return min(max(order.lease_until_ms / 1000 + LEASE_S / 5 - time.time(), 0.0), LEASE_S * 1.2)


def killed(process: Any, timeout_s: float = 900.0) -> bool:
    """Waits for the process's end; whether a fault point has killed it."""
    process.join(timeout_s)
    assert process.exitcode is not None, "the worker does not end"
    return bool(process.exitcode == -signal.SIGKILL)


def wait_until_stopped(pid: int, timeout_s: float = 30.0) -> None:
    limit = time.monotonic() + timeout_s
    while True:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            return
        if time.monotonic() > limit:
            break
        time.sleep(0.02)
    raise AssertionError("the worker did not stop at its fault point")


@contextmanager
def world(database: TestDatabase, aws: Mapping[str, str], bucket: str, jobs_table: str) -> Iterator[World]:
    """The bootstrap of this process is built on the same stores while it lasts."""
    environment = {
        **aws,
        "STRATA_DATABASE_URL": database.index_url,
        "STRATA_BUCKET": bucket,
        "STRATA_JOBS_TABLE": jobs_table,
        "STRATA_CACHE_TABLE": "unused",
        "STRATA_EMBEDDER": "hashed",
        "STRATA_LEASE_S": str(LEASE_S),
        "STRATA_WORKER_FUNCTION": "not-there",
    }
    before = dict(os.environ)
    os.environ.update(environment)
    forget_what_was_built()
    made = World(database=database, environment=environment)
    try:
        yield made
    finally:
        made.search.close()
        stores.database().close()
        os.environ.clear()
        os.environ.update(before)
        forget_what_was_built()
