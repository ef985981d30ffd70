"""The real use cases on a Postgres and an S3 of their own, which are gone afterwards."""

from __future__ import annotations

import itertools
import json
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3

from strata.indexing import PIPELINE_VERSION
from strata.indexing.pipeline import Indexer
from strata.jobs.running import Progress
from strata.model.access import Identity
from strata.model.asking import Question
from strata.model.jobs import Job, JobKind, JobReport, JobStatus, Lease
from strata.ports.embedding import Embedder
from strata.ports.objects import ObjectStore
from strata.ports.sessions import SessionStore
from strata.retrieval.features import FeatureReranker
from strata.retrieval.retrieve import Retriever
from strata.settings.model import AnsweringSettings, IndexingSettings
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.migrate import migrate
from strata.storage.postgres.search import PostgresSearch
from strata.storage.postgres.sessions import PostgresSessionStore
from strata.storage.s3.objects import S3ObjectStore
from strata_local.postgres import BundledPostgres
from strata_local.processes import Child
from strata_local.runtime_api import free_port

SESSION = "bench"
BUCKET = "bench"
IDENTITY = Identity(subject="bench", tenant="bench")
READERS = ("group:all", "group:tenth", "group:hundredth", "group:thousandth")
"""Who reads every file, each tenth, each hundredth and each thousandth of what is grown."""
S3_START_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """One empty session, ready to be indexed and asked. `query_url` is the restricted role's."""

    indexer: Indexer
    retriever: Retriever
    search: PostgresSearch
    sessions: PostgresSessionStore
    cache: PostgresBlobCache
    objects: ObjectStore
    query_url: str
    index_url: str
    owner_url: str
    postgres_pid: int
    session: str = SESSION
    jobs: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def in_session(self, name: str) -> Workbench:
        """The same for a new session, whose project nobody has prepared a file of."""
        self.sessions.create(
            session_id=name,
            identity=IDENTITY,
            project_id=name,
            embedding_model=self.indexer.embedder.model_id,
            dimension=self.indexer.embedder.dimension,
            pipeline_version=PIPELINE_VERSION,
        )
        return replace(self, session=name)

    def snapshot(self, files: Mapping[str, str]) -> JobReport:
        job, lease = self._job(JobKind.SNAPSHOT, [{"path": path, "content": text} for path, text in files.items()])
        return self.indexer.index_snapshot(job, lease, "jsonl", _unseen)

    def change(self, path: str, text: str) -> JobReport:
        job, lease = self._job(JobKind.CHANGES, [{"op": "upsert", "path": path, "content": text}])
        return self.indexer.index_changes(job, lease, _unseen)

    def question(self, text: str, *, limit: int) -> Question:
        return Question(text=text, session_id=self.session, identity=IDENTITY, limit=limit)

    def _job(self, kind: JobKind, lines: Sequence[Mapping[str, str]]) -> tuple[Job, Lease]:
        """Store the upload and describe a job that has just been started on it."""
        number = next(self.jobs)
        key = f"uploads/{self.session}/job-{number}.jsonl"
        body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        self.objects.put(key, body, content_type="application/jsonl")
        now = datetime.now(UTC)
        job = Job(
            job_id=f"job-{number}",
            session_id=self.session,
            tenant=IDENTITY.tenant,
            kind=kind,
            status=JobStatus.RUNNING,
            object_key=key,
            created_at=now,
            updated_at=now,
            seq=number,
            fence=number,
        )
        return job, Lease(session_id=self.session, owner="bench", fence=number, expires_at=now + timedelta(hours=1))


def _unseen(progress: Progress, /) -> None:
    """Nobody watches a benchmark's job."""


def make_session(sessions: SessionStore, session_id: str, embedder: Embedder) -> None:
    sessions.create(
        session_id=session_id,
        identity=IDENTITY,
        project_id=session_id,
        embedding_model=embedder.model_id,
        dimension=embedder.dimension,
        pipeline_version=PIPELINE_VERSION,
        readers=READERS,
    )


@contextmanager
def workbench(embedder: Embedder) -> Iterator[Workbench]:
    """Start the servers, migrate, make the session; stop and remove everything at the end."""
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as name, _s3(Path(name)) as client:
        folder = Path(name)
        server = BundledPostgres(
            folder / "postgres", log_path=folder / "postgres.log", passwords_file=folder / "passwords.json"
        )
        urls = server.start()
        try:
            migrate(urls.owner, passwords=urls.passwords)
            index, query = Database(urls.index), Database(urls.query)
            objects = S3ObjectStore(client=client, bucket=BUCKET)
            sessions = PostgresSessionStore(index)
            cache = PostgresBlobCache(index)
            make_session(sessions, SESSION, embedder)
            search = PostgresSearch(query)
            yield Workbench(
                indexer=Indexer(
                    sessions=sessions,
                    cache=cache,
                    objects=objects,
                    embedder=embedder,
                    settings=IndexingSettings(),
                ),
                retriever=Retriever(
                    search=search,
                    embedder=embedder,
                    depth=AnsweringSettings().retrieval_depth,
                    reranker=FeatureReranker(languages=embedder.languages),
                ),
                search=search,
                sessions=sessions,
                cache=cache,
                objects=objects,
                query_url=urls.query,
                index_url=urls.index,
                owner_url=urls.owner,
                postgres_pid=int(next(folder.rglob("postmaster.pid")).read_text().split()[0]),
            )
            index.close()
            query.close()
        finally:
            server.stop()


@contextmanager
def _s3(folder: Path) -> Iterator[Any]:
    """A client of moto's server, which runs in a process of its own: its memory is not ours."""
    port = free_port()
    with (folder / "s3.log").open("wb") as log:
        server = Child(
            [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)],
            environment={},
            folder=folder,
            output=log,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(server, url, folder / "s3.log")
            client = boto3.session.Session().client(
                "s3",
                endpoint_url=url,
                region_name="us-east-1",
                aws_access_key_id="local",
                aws_secret_access_key="local",  # noqa: S106 - moto asks for any
            )
            client.create_bucket(Bucket=BUCKET)
            yield client
        finally:
            server.stop(first=signal.SIGTERM, patience_s=5.0)


def _wait_for(server: Child, url: str, log: Path) -> None:
    limit = time.monotonic() + S3_START_LIMIT_S
    while server.alive and time.monotonic() < limit:
        try:
            with urllib.request.urlopen(f"{url}/moto-api/data.json", timeout=5):  # noqa: S310 - our own server
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError(f"moto's server did not start: {log.read_text(errors='replace')[-500:]}")
