"""A project that is indexed in this process: the pipeline on fakes of its stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from strata.indexing import PIPELINE_VERSION
from strata.indexing.pipeline import Indexer
from strata.jobs.running import Progress, ReportProgress
from strata.model.corpus import ReportedFile, Vectors
from strata.model.jobs import Job, JobKind, JobReport, Lease
from strata.providers.hashed.embedder import HashedEmbedder
from strata.settings.model import IndexingSettings
from tests.support.factories import identity, job
from tests.support.fake_objects import FakeObjectStore
from tests.support.fakes import FakeBlobCache, FakeSessionStore
from tests.support.uploads import json_lines, tar_gz

Files = Mapping[str, bytes | str]


class CountingEmbedder(HashedEmbedder):
    """The hashed embedder; `texts` are all that it was given."""

    texts: list[str]

    def __init__(self) -> None:
        object.__setattr__(self, "texts", [])

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.texts.extend(texts)
        return super().embed_documents(texts)


@dataclass
class Project:
    """A session whose jobs run one after the other, each a new one."""

    embedder: CountingEmbedder = field(default_factory=CountingEmbedder)
    cache: FakeBlobCache = field(default_factory=FakeBlobCache)
    objects: FakeObjectStore = field(default_factory=FakeObjectStore)
    settings: IndexingSettings = field(default_factory=lambda: IndexingSettings(prepare_workers=1))
    session_id: str = "docs"
    told: list[Progress] = field(default_factory=list)
    seq: int = 0

    def __post_init__(self) -> None:
        self.sessions = FakeSessionStore(self.cache)
        self.create(self.session_id)

    def create(self, session_id: str, **fields: Any) -> None:
        values: dict[str, Any] = {
            "identity": identity(),
            "project_id": "shop",
            "embedding_model": self.embedder.model_id,
            "dimension": self.embedder.dimension,
            "pipeline_version": PIPELINE_VERSION,
        }
        self.sessions.create(session_id=session_id, **(values | fields))

    def indexer(self) -> Indexer:
        return Indexer(
            sessions=self.sessions,
            cache=self.cache,
            objects=self.objects,
            embedder=self.embedder,
            settings=self.settings,
        )

    def accepted(self, body: bytes, kind: JobKind) -> tuple[Job, Lease]:
        self.seq += 1
        made = replace(job(f"job-{self.seq:026}", session_id=self.session_id, kind=kind), seq=self.seq)
        self.objects.put(made.object_key, body, content_type="")
        expires_at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=1)
        return made, Lease(session_id=self.session_id, owner="worker", fence=self.seq, expires_at=expires_at)

    def snapshot(
        self,
        files: Files | bytes,
        upload_format: str = "tar.gz",
        progress: ReportProgress | None = None,
        *,
        reindex: bool = False,
    ) -> JobReport:
        body = files if isinstance(files, bytes) else tar_gz(files)
        made, lease = self.accepted(body, JobKind.SNAPSHOT)
        made = replace(made, reindex=reindex)
        return self.indexer().index_snapshot(made, lease, upload_format, progress or self.told.append)

    def change(self, *lines: Mapping[str, Any]) -> JobReport:
        made, lease = self.accepted(json_lines(*lines), JobKind.CHANGES)
        return self.indexer().index_changes(made, lease, self.told.append)

    def roll_back(self) -> JobReport:
        made, lease = self.accepted(b"", JobKind.ROLLBACK)
        return self.indexer().roll_back(made, lease, self.told.append)

    @property
    def paths(self) -> list[str]:
        return sorted(self.sessions.files[self.session_id])

    def text_of(self, path: str) -> str:
        return "\n".join(embedded.chunk.content for embedded in self.sessions.chunks[self.session_id][path])


FILES: Files = {
    "README.md": "# Shop\n\nSells things.\n",
    "src/app.py": "def sell():\n    return 1\n",
    "a.txt": "plain\n",
}


def reasons(files: tuple[ReportedFile, ...]) -> dict[str, str]:
    return {file.path: file.reason for file in files}


OTHERS = [("embedding_model", "other"), ("dimension", 8), ("pipeline_version", "0")]
