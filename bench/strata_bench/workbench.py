"""The real use cases on a Postgres and an S3 of their own, which are gone afterwards."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from strata.indexing import PIPELINE_VERSION
from strata.model.access import Identity
from strata.model.asking import Question
from strata.model.jobs import Job, JobKind, JobStatus, Lease
from strata.ports.embedding import Embedder
from strata.ports.sessions import SessionStore
from strata.retrieval.features import FeatureReranker
from strata.retrieval.retrieve import Retriever
from strata.settings.model import AnsweringSettings, IndexingSettings
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.search import PostgresSearch
from strata.storage.postgres.sessions import PostgresSessionStore
from strata_bench.embedders import EmbedderChoice
from strata_bench.s3 import BUCKET, s3_client, s3_server
from strata_bench.worker import Place, Work, Worker
from strata_eval.own_postgres import own_postgres

SESSION = "bench"
IDENTITY = Identity(subject="bench", tenant="bench")
READERS = ("group:all", "group:tenth", "group:hundredth", "group:thousandth")
"""Who reads every file, each tenth, each hundredth and each thousandth of what is grown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """One empty session, ready to be indexed and asked. `query_url` is the restricted role's."""

    embedder: Embedder
    retriever: Retriever
    search: PostgresSearch
    sessions: PostgresSessionStore
    cache: PostgresBlobCache
    place: Place
    folder: Path
    query: Database
    """The connection of `search`."""
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
            embedding_model=self.embedder.model_id,
            dimension=self.embedder.dimension,
            pipeline_version=PIPELINE_VERSION,
        )
        return replace(self, session=name)

    def worker(self) -> Worker:
        return Worker(self.place)

    def snapshot(self, worker: Worker, files: Iterable[tuple[str, str]]) -> Work:
        """The files, each a path and its text, are never held together."""
        return worker.run(*self._job(JobKind.SNAPSHOT, ({"path": path, "content": text} for path, text in files)))

    def change(self, worker: Worker, path: str, text: str) -> Work:
        return worker.run(*self._job(JobKind.CHANGES, [{"op": "upsert", "path": path, "content": text}]))

    def question(self, text: str, *, limit: int) -> Question:
        return Question(text=text, session_id=self.session, identity=IDENTITY, limit=limit)

    def _job(self, kind: JobKind, lines: Iterable[Mapping[str, str]]) -> tuple[Job, Lease]:
        """Store the upload and describe a job that has just been started on it."""
        number = next(self.jobs)
        key = f"uploads/{self.session}/job-{number}.jsonl"
        upload = self.folder / "upload.jsonl"
        with upload.open("w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)
        s3_client(self.place.s3_url).upload_file(str(upload), BUCKET, key)
        upload.unlink()
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
def workbench(choice: EmbedderChoice) -> Iterator[Workbench]:
    """Start the servers, migrate, make the session; stop and remove everything at the end."""
    embedder = choice.load()
    with (
        tempfile.TemporaryDirectory(prefix="strata-bench-") as name,
        s3_server(Path(name)) as s3_url,
        own_postgres(Path(name)) as own,
    ):
        folder = Path(name)
        sessions = PostgresSessionStore(own.index)
        make_session(sessions, SESSION, embedder)
        search = PostgresSearch(own.query)
        yield Workbench(
            embedder=embedder,
            retriever=Retriever(
                search=search,
                embedder=embedder,
                depth=AnsweringSettings().retrieval_depth,
                reranker=FeatureReranker(languages=embedder.languages),
                row_tokens=IndexingSettings().chunk_tokens,
            ),
            search=search,
            sessions=sessions,
            cache=PostgresBlobCache(own.index),
            place=Place(database_url=own.urls.index, s3_url=s3_url, embedder=choice),
            folder=folder,
            query=own.query,
            query_url=own.urls.query,
            index_url=own.urls.index,
            owner_url=own.urls.owner,
            postgres_pid=int(next(folder.rglob("postmaster.pid")).read_text().split()[0]),
        )
