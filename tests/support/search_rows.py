"""Rows to search: written by the real commit, and mirrored into the fake that knows what must be found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg

from strata.model.access import Identity
from strata.model.asking import Filter, Question
from strata.model.corpus import EMBEDDED_LAYERS, EmbeddedChunk, FileEntry, Layer, Link, PreparedBlob, Vector
from strata.model.jobs import Counters
from strata.ports.search import SearchRequest
from strata.ports.sessions import CommitRequest
from strata.retrieval.analyser import analyse, leading_terms, query_terms
from strata.retrieval.naming import names_in
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.search import PostgresSearch
from strata.storage.postgres.sessions import NEAREST_ROWS, PostgresSessionStore
from tests.support import factories
from tests.support.chunk_search import FakeChunkSearch, IndexedChunk
from tests.support.factories import DIMENSION, EMBEDDING_MODEL, PIPELINE_VERSION, REPO_ID
from tests.support.postgres import TestDatabase


@dataclass(frozen=True)
class TextFile:
    """A file with one chunk for each text, in the given layer."""

    path: str
    texts: Sequence[str]
    layer: Layer = Layer.D3_SECTION_INDEX
    acl: tuple[str, ...] | None = None
    embeddings: Sequence[Vector] = ()
    more: Sequence[tuple[Layer, str]] = ()
    links: Sequence[Link] = ()

    @property
    def content(self) -> str:
        return "\n".join([*self.texts, *(text for _, text in self.more)])

    def chunks(self, dimension: int) -> list[EmbeddedChunk]:
        layered = [*((self.layer, text) for text in self.texts), *self.more]
        ordinals: Counter[Layer] = Counter()
        made = []
        for place, (layer, text) in enumerate(layered):
            made.append(
                factories.embedded_chunk(
                    text,
                    path=self.path,
                    layer=layer,
                    ordinal=ordinals[layer],
                    title=self.path,
                    embedding=(
                        self.embeddings[place] if place < len(self.embeddings) and layer in EMBEDDED_LAYERS else None
                    ),
                    dimension=dimension,
                    term_counts=Counter(analyse(text)),
                )
            )
            ordinals[layer] += 1
        return made


@dataclass
class SearchRows:
    """`search` is the real adapter as `strata_query`, `twin` the fake with the same rows."""

    database: TestDatabase
    twin: FakeChunkSearch = field(default_factory=FakeChunkSearch)
    nearest_from_rows: int = NEAREST_ROWS

    def __post_init__(self) -> None:
        self._index = Database(self.database.index_url)
        self.query = Database(self.database.query_url)
        self.search = PostgresSearch(self.query)
        self.sessions = PostgresSessionStore(self._index, nearest_from_rows=self.nearest_from_rows)
        self._cache = PostgresBlobCache(self._index)

    def close(self) -> None:
        self._index.close()
        self.query.close()

    def session(
        self,
        session_id: str,
        owner: Identity | None = None,
        *,
        readers: Sequence[str] = (),
        dimension: int = DIMENSION,
        embedding_model: str = EMBEDDING_MODEL,
    ) -> None:
        session, _ = self.sessions.create(
            session_id=session_id,
            identity=owner or factories.identity(),
            project_id=REPO_ID,
            embedding_model=embedding_model,
            dimension=dimension,
            pipeline_version=PIPELINE_VERSION,
            readers=readers,
        )
        self.twin.sessions[session_id] = session
        self.twin.chunks[session_id] = []

    def commit(
        self,
        session_id: str,
        files: Sequence[TextFile] = (),
        *,
        deletes: Sequence[str] = (),
        rights: Sequence[TextFile] = (),
    ) -> None:
        """Write (or rewrite) the files, delete the paths, change the rights of files that stay as they are."""
        session = self.sessions.get(session_id)
        assert session is not None
        blobs = [self._blob(file, session.tenant, session.dimension, session.embedding_model) for file in files]
        self._cache.keep(blobs)
        seq = session.applied_seq + 1
        self.sessions.commit(
            CommitRequest(
                session_id=session_id,
                job_id=f"job-{session_id}-{seq}",
                seq=seq,
                fence=seq,
                upserts=tuple(_entry(file) for file in files),
                keys={blob.key.path: blob.key for blob in blobs},
                rights=tuple(_entry(file) for file in rights),
                deletes=tuple(deletes),
                counters=Counters(indexed_files=len(files)),
            )
        )
        self._mirror(session_id, files, deletes, rights)

    def request(
        self,
        session_id: str,
        text: str,
        *,
        identity: Identity | None = None,
        filter: Filter | None = None,
        limit: int = 10,
        depth: int = 50,
        embedding: Vector | None = None,
        dense: bool = True,
    ) -> SearchRequest:
        session = self.twin.sessions.get(session_id)
        dimension = session.dimension if session else DIMENSION
        model = session.embedding_model if session else EMBEDDING_MODEL
        vector = embedding if embedding is not None else factories.unit_vector(text, dimension)
        return SearchRequest(
            question=Question(
                text=text,
                session_id=session_id,
                identity=identity or factories.identity(),
                filter=filter or Filter(),
                limit=limit,
            ),
            embedding=vector if dense else None,
            embedding_model=model if dense else None,
            terms=query_terms(text),
            leading_terms=leading_terms(text),
            names=names_in(text),
            depth=depth,
        )

    def _blob(self, file: TextFile, tenant: str, dimension: int, model: str) -> PreparedBlob:
        key = factories.blob_key(file.path, file.content, tenant=tenant, embedding_model=model)
        chunks = file.chunks(dimension)
        return factories.prepared_blob(file.path, file.content, chunks=chunks, key=key, links=file.links)

    def _mirror(
        self, session_id: str, files: Sequence[TextFile], deletes: Sequence[str], rights: Sequence[TextFile]
    ) -> None:
        session = self.sessions.get(session_id)
        assert session is not None
        self.twin.sessions[session_id] = session
        known = {
            (row.chunk.path, row.chunk.layer, row.chunk.ordinal): row.embedded for row in self.twin.chunks[session_id]
        }
        sources = {row.chunk.path: row.source for row in self.twin.chunks[session_id]}
        for file in files:
            sources[file.path] = file.content
            for embedded in file.chunks(session.dimension):
                known[(file.path, embedded.chunk.layer, embedded.chunk.ordinal)] = embedded
        with psycopg.connect(self.database.owner_url) as connection:
            rows = connection.execute(
                """
                SELECT chunk_id, path, layer, ordinal, blob_sha, acl, metadata FROM rag_chunks
                WHERE index_id = (SELECT active_index_id FROM rag_sessions WHERE session_id = %s)
                """,
                [session_id],
            ).fetchall()
            averages = connection.execute(
                """
                SELECT layer, pinned_average_length FROM rag_index_layers
                WHERE index_id = (SELECT active_index_id FROM rag_sessions WHERE session_id = %s)
                """,
                [session_id],
            ).fetchall()
        self.twin.chunks[session_id] = [
            IndexedChunk(
                chunk_id=chunk_id,
                embedded=known[(path, Layer(layer), ordinal)],
                blob_sha=blob_sha,
                source=sources[path],
                acl=None if acl is None else tuple(acl),
                metadata=metadata,
            )
            for chunk_id, path, layer, ordinal, blob_sha, acl, metadata in rows
        ]
        self.twin.average_lengths[session_id] = {Layer(layer): average for layer, average in averages}
        assert not {row.chunk.path for row in self.twin.chunks[session_id]} & set(deletes)
        for file in rights:
            assert all(row.acl == file.acl for row in self.twin.chunks[session_id] if row.chunk.path == file.path)


def _entry(file: TextFile) -> FileEntry:
    return factories.file_entry(file.path, file.content, acl=file.acl)
