"""A worker in a process of its own, as a function is one: what it holds and takes is not mixed with the measuring."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from strata.indexing.pipeline import Indexer
from strata.jobs.running import Progress
from strata.model.jobs import Job, JobKind, JobReport, Lease
from strata.ports.sessions import CommitRequest, CommitResult, FlipRequest
from strata.settings.model import IndexingSettings
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.sessions import PostgresSessionStore
from strata.storage.s3.objects import S3ObjectStore
from strata_bench.embedders import EmbedderChoice
from strata_bench.memory import peak_rss_bytes, watched_memory
from strata_bench.processor import own_cpu_s
from strata_bench.s3 import BUCKET, s3_client

_END_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a worker finds everything."""

    database_url: str
    s3_url: str
    embedder: EmbedderChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One job that was done: `searchable_s` after its start it could be searched, and `seconds` after it all was done.

    `cpu_s` is the processor's time of the worker and of its own workers. `peak_rss_bytes` is the most that one of these
    processes has held so far, `peak_memory_bytes` the most that they held together meanwhile, shared pages once.
    """

    report: JobReport
    searchable_s: float
    seconds: float
    cpu_s: float
    peak_rss_bytes: int
    peak_memory_bytes: int = 0


class Worker:
    """Runs one job after the other while the block lasts; it has loaded its model and is connected beforehand."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> Worker:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, self._place), name="worker")
        self._process.start()
        theirs.close()
        self._received()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join(_END_PATIENCE_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def run(self, job: Job, lease: Lease) -> Work:
        """Raises what the job raised."""
        with watched_memory(self._process.pid or 0) as memory:
            self._pipe.send((job, lease))
            work: Work = self._received()
        return replace(work, peak_memory_bytes=memory.bytes)

    def _received(self) -> Any:
        try:
            result, error = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise RuntimeError(f"The worker has ended with status {self._process.exitcode}.") from None
        if error is not None:
            raise error
        return result


def _serve(pipe: Connection, place: Place) -> None:
    try:
        database = Database(place.database_url)
        sessions = _Sessions(database)
        indexer = _indexer(place, database, sessions)
    except Exception as error:
        pipe.send((None, error))
        return
    pipe.send((None, None))
    while True:
        try:
            job, lease = pipe.recv()
        except EOFError:
            return
        try:
            answer: tuple[Work | None, Exception | None] = (_work(indexer, sessions, job, lease), None)
        except Exception as error:
            answer = (None, error)
        pipe.send(answer)


class _Sessions(PostgresSessionStore):
    """Notes when something was committed last."""

    committed_at = 0.0

    def commit(self, request: CommitRequest) -> CommitResult:
        result = super().commit(request)
        self.committed_at = time.perf_counter()
        return result

    def flip(self, request: FlipRequest) -> CommitResult:
        result = super().flip(request)
        self.committed_at = time.perf_counter()
        return result


def _indexer(place: Place, database: Database, sessions: _Sessions) -> Indexer:
    embedder = place.embedder.load()
    embedder.count(["def warm(): ..."])
    sessions.get("")
    return Indexer(
        sessions=sessions,
        cache=PostgresBlobCache(database),
        objects=S3ObjectStore(client=s3_client(place.s3_url), bucket=BUCKET),
        embedder=embedder,
        settings=IndexingSettings(),
    )


def _work(indexer: Indexer, sessions: _Sessions, job: Job, lease: Lease) -> Work:
    cpu_s, started = own_cpu_s(), time.perf_counter()
    if job.kind is JobKind.SNAPSHOT:
        report = indexer.index_snapshot(job, lease, "jsonl", _unseen)
    else:
        report = indexer.index_changes(job, lease, _unseen)
    return Work(
        report=report,
        searchable_s=sessions.committed_at - started,
        seconds=time.perf_counter() - started,
        cpu_s=own_cpu_s() - cpu_s,
        peak_rss_bytes=peak_rss_bytes(),
    )


def _unseen(progress: Progress, /) -> None:
    """Nobody watches a benchmark's job."""
