"""A session in Postgres whose files went the whole way: parsed, embedded by the hashed embedder, committed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from strata.indexing import PIPELINE_VERSION
from strata.indexing.chunking.chunker import Chunker
from strata.indexing.prepare import Prepared, Preparer
from strata.model.access import Identity
from strata.model.corpus import BlobKey
from strata.model.jobs import Counters
from strata.ports.sessions import CommitRequest, CommitResult
from strata.providers.hashed.embedder import HashedEmbedder
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.sessions import PostgresSessionStore
from tests.support.factories import REPO_ID, TENANT, identity, source_file


class IndexedSession:
    """Call `commit` as often as a test needs; its jobs count up by themselves."""

    def __init__(self, database: Database, session_id: str = "shop", owner: Identity | None = None) -> None:
        self.session_id = session_id
        self.owner = owner or identity()
        self._embedder = HashedEmbedder()
        self._cache = PostgresBlobCache(database)
        self._sessions = PostgresSessionStore(database)
        self._seq = 0

    def open(self, *, readers: Sequence[str] = ()) -> IndexedSession:
        self._sessions.create(
            session_id=self.session_id,
            identity=self.owner,
            project_id=REPO_ID,
            embedding_model=self._embedder.model_id,
            dimension=self._embedder.dimension,
            pipeline_version=PIPELINE_VERSION,
            readers=readers,
        )
        return self

    def commit(
        self,
        files: Mapping[str, str],
        *,
        deletes: Collection[str] = (),
        acl: Mapping[str, Sequence[str]] | None = None,
        rights: Mapping[str, Sequence[str]] | None = None,
    ) -> CommitResult:
        """`rights` are files whose list of principals alone changes; their content must be in `files` of before."""
        self._seq += 1
        sources = [source_file(path, content, acl=(acl or {}).get(path)) for path, content in files.items()]
        keys = {
            source.path: BlobKey(
                tenant=TENANT,
                repo_id=REPO_ID,
                path=source.path,
                blob_sha=source.entry.blob_sha,
                pipeline_version=PIPELINE_VERSION,
                embedding_model=self._embedder.model_id,
            )
            for source in sources
        }
        preparer = Preparer(cache=self._cache, embedder=self._embedder, chunker=Chunker(counter=self._embedder))
        done = Prepared()
        preparer.prepare([(keys[source.path], source) for source in sources], done, lambda: None)
        assert done.failed == {}
        indexed = self._sessions.indexed_files(self.session_id)
        return self._sessions.commit(
            CommitRequest(
                session_id=self.session_id,
                job_id=f"job-{self._seq}",
                seq=self._seq,
                fence=1,
                upserts=tuple(source.entry for source in sources),
                keys=keys,
                rights=tuple(
                    replace(indexed[path], acl=tuple(principals)) for path, principals in (rights or {}).items()
                ),
                deletes=tuple(deletes),
                counters=Counters(),
            )
        )
