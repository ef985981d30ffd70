"""Chunks that somebody else cut, put into the tables as one layer: for a comparison over the very same rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from strata.errors import ConfigurationError, SessionNotFound
from strata.indexing import PIPELINE_VERSION
from strata.indexing.prepare import embed
from strata.model.corpus import BlobKey, Chunk, EmbeddedChunk, FileEntry, Layer, PreparedBlob, Span, blob_sha_of
from strata.model.jobs import Counters
from strata.ports.blobs import BlobCache
from strata.ports.embedding import Embedder
from strata.ports.sessions import CommitRequest, SessionStore
from strata_bench.corpus import text_rows

LAYER = Layer.C0_SOURCE_CHUNKS


def read_chunks(path: Path) -> list[Chunk]:
    """The chunks of a JSON Lines file (`path` and `text` each), numbered within their file in the order of the lines.

    Where a chunk stood in its file is not known, so each begins on the line after the one before. Blank ones are left
    out. Raises `ConfigurationError`, also where none is left.
    """
    by_file: dict[str, list[Chunk]] = {}
    for row in text_rows(path, ("path", "text")):
        if not row["text"].strip():
            continue
        chunks = by_file.setdefault(row["path"], [])
        start = chunks[-1].span.end + 1 if chunks else 1
        chunks.append(
            Chunk(
                path=row["path"],
                layer=LAYER,
                ordinal=len(chunks),
                title=row["path"],
                context="",
                content=row["text"],
                span=Span(start=start, end=start + row["text"].count("\n")),
            )
        )
    if not by_file:
        raise ConfigurationError(f"{path} holds no chunk.")
    return [chunk for chunks in by_file.values() for chunk in chunks]


def commit_chunks(
    session_id: str,
    tenant: str,
    chunks: Sequence[Chunk],
    *,
    sessions: SessionStore,
    cache: BlobCache,
    embedder: Embedder,
) -> int:
    """Embed and commit the chunks, which lie together by file; the number of chunks that the session then holds."""
    blobs = [
        _blob(session_id, tenant, path, list(found), embedder)
        for path, found in groupby(embed(chunks, embedder), key=lambda chunk: chunk.chunk.path)
    ]
    return commit_blobs(session_id, blobs, {}, sessions=sessions, cache=cache)


def commit_blobs(
    session_id: str,
    blobs: Sequence[PreparedBlob],
    readers: dict[str, tuple[str, ...]],
    *,
    sessions: SessionStore,
    cache: BlobCache,
) -> int:
    """One commit of prepared files, with the readers of a path where it has some; the session's chunks after it."""
    session = sessions.get(session_id)
    if session is None:
        raise SessionNotFound
    seq = session.applied_seq + 1
    cache.keep(blobs)
    entries = [
        FileEntry(
            path=blob.key.path, blob_sha=blob.key.blob_sha, size_bytes=len(blob.source), acl=readers.get(blob.key.path)
        )
        for blob in blobs
    ]
    return sessions.commit(
        CommitRequest(
            session_id=session_id,
            job_id=f"job-{session_id}-{seq}",
            seq=seq,
            fence=seq,
            upserts=tuple(entries),
            keys={blob.key.path: blob.key for blob in blobs},
            rights=(),
            deletes=(),
            counters=Counters(indexed_files=len(blobs)),
        )
    ).chunks


def _blob(session_id: str, tenant: str, path: str, chunks: Sequence[EmbeddedChunk], embedder: Embedder) -> PreparedBlob:
    source = "\n".join(chunk.chunk.content for chunk in chunks).encode()
    key = BlobKey(
        tenant=tenant,
        repo_id=session_id,
        path=path,
        blob_sha=blob_sha_of(source),
        pipeline_version=PIPELINE_VERSION,
        embedding_model=embedder.model_id,
    )
    return PreparedBlob(key=key, source=source, chunks=tuple(chunks))
