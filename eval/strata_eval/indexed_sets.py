"""A judged set as a session: parsed, cut, embedded and committed by the product, in a Postgres of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from strata.indexing import pipeline_version
from strata.indexing.chunking.chunker import Chunker
from strata.indexing.prepare import Prepared, Preparer, embed
from strata.indexing.text_length import text_counter
from strata.model.access import Identity
from strata.model.corpus import BlobKey, Chunk, FileEntry, PreparedBlob, SourceFile, blob_sha_of
from strata.model.jobs import Counters
from strata.ports.blobs import BlobCache
from strata.ports.clock import unwatched
from strata.ports.generation import Preambler
from strata.ports.search import ChunkSearch
from strata.ports.sessions import CommitRequest, SessionStore
from strata.settings.model import IndexingSettings
from strata_eval.dataset import JudgedSet, read_set
from strata_eval.judgements import read_given_chunks
from strata_eval.vector_cache import CachedEmbedder

GIVEN = "-given"
"""After a set's name: the chunks that the set brings along, in place of our own."""
IDENTITY = Identity(subject="eval", tenant="eval")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedSet:
    """`failed` are the files that could not be indexed, with the reason: no question finds them."""

    chunks: int
    failed: Mapping[str, str]


def folder_of(data: Path, name: str) -> Path:
    """The folder behind a set's name; one whose own name ends in `GIVEN` is itself."""
    return data / name if (data / name).is_dir() else data / name.removesuffix(GIVEN)


def read_any_set(data: Path, name: str) -> JudgedSet:
    folder = folder_of(data, name)
    return replace(read_set(folder), name=name, given=folder.name != name)


def session_of(name: str, *, preambled: bool = False) -> str:
    """The session that a set is indexed in, whatever characters its folder's name has; one more with preambles."""
    number = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:32]
    return f"{'preambles' if preambled else 'set'}-{number}"


def index_set(
    judged: JudgedSet,
    data: Path,
    *,
    embedder: CachedEmbedder,
    sessions: SessionStore,
    cache: BlobCache,
    preambler: Preambler | None = None,
) -> IndexedSet:
    """Parse, cut, embed and commit every file of the set into its session (`session_of`)."""
    session_id, project_id = session_of(judged.name, preambled=preambler is not None), session_of(judged.name)
    version = pipeline_version("" if preambler is None else preambler.version)
    sessions.create(
        session_id=session_id,
        identity=IDENTITY,
        project_id=project_id,
        embedding_model=embedder.model_id,
        dimension=embedder.dimension,
        pipeline_version=version,
    )
    sources = [_source(document.path, document.text) for document in judged.documents]
    keys = {
        source.path: BlobKey(
            tenant=IDENTITY.tenant,
            repo_id=project_id,
            path=source.path,
            blob_sha=source.entry.blob_sha,
            pipeline_version=version,
            embedding_model=embedder.model_id,
        )
        for source in sources
    }
    if judged.given:
        given = read_given_chunks(folder_of(data, judged.name))
        chunks = [given.get(source.path, []) for source in sources]
        if preambler is not None:
            chunks = _preambled(preambler, [document.text for document in judged.documents], chunks)
        cache.keep(
            [
                PreparedBlob(key=keys[source.path], source=source.content, chunks=tuple(embed(cut, embedder)))
                for source, cut in zip(sources, chunks, strict=True)
            ]
        )
        failed: Mapping[str, str] = {}
    else:
        limits = IndexingSettings()
        chunker = Chunker(
            counter=text_counter(embedder),
            chunk_tokens=limits.chunk_tokens,
            overlap_tokens=limits.overlap_tokens,
            reserved_tokens=0 if preambler is None else preambler.reserved_tokens,
        )
        done = Prepared()
        preparer = Preparer(cache=cache, embedder=embedder, chunker=chunker, preambler=preambler)
        preparer.prepare([(keys[source.path], source) for source in sources], done, unwatched)
        failed = done.failed
    upserts = tuple(source.entry for source in sources if source.path not in failed)
    committed = sessions.commit(
        CommitRequest(
            session_id=session_id,
            job_id=f"eval-{session_id}",
            seq=1,
            fence=1,
            upserts=upserts,
            keys={entry.path: keys[entry.path] for entry in upserts},
            rights=(),
            deletes=(),
            counters=Counters(indexed_files=len(upserts), failed_files=len(failed)),
        )
    )
    return IndexedSet(chunks=committed.chunks, failed=failed)


def _preambled(preambler: Preambler, texts: Sequence[str], chunks: Sequence[list[Chunk]]) -> list[list[Chunk]]:
    """A file that the chat model refuses keeps its chunks as they are."""
    written = preambler.preambles(list(zip(texts, chunks, strict=True)), unwatched)
    return [
        cut
        if preambles.refusal
        else [replace(chunk, preamble=text) for chunk, text in zip(cut, preambles.texts, strict=True)]
        for cut, preambles in zip(chunks, written, strict=True)
    ]


@contextmanager
def postgres() -> Iterator[tuple[SessionStore, BlobCache, ChunkSearch]]:
    """The stores on a Postgres of their own, which is gone afterwards."""
    from strata.storage.postgres.cache import PostgresBlobCache
    from strata.storage.postgres.search import PostgresSearch
    from strata.storage.postgres.sessions import PostgresSessionStore
    from strata_eval.own_postgres import own_postgres

    with TemporaryDirectory(prefix="strata-eval-") as name, own_postgres(Path(name)) as own:
        yield PostgresSessionStore(own.index), PostgresBlobCache(own.index), PostgresSearch(own.query)


def _source(path: str, text: str) -> SourceFile:
    content = text.encode()
    return SourceFile(
        entry=FileEntry(path=path, blob_sha=blob_sha_of(content), size_bytes=len(content)), content=content
    )
