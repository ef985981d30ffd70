"""Builders with sane defaults: a test names only what it is about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from strata.model.access import Identity
from strata.model.corpus import (
    EMBEDDED_LAYERS,
    BlobKey,
    Chunk,
    EmbeddedChunk,
    FileEntry,
    Layer,
    Link,
    Note,
    PreparedBlob,
    SourceFile,
    Span,
    Vector,
    blob_sha_of,
    text_key_of,
)
from strata.model.jobs import Job, JobKind, JobStatus
from strata.model.terms import TermCounts

TENANT = "acme"
REPO_ID = "shop"
EMBEDDING_MODEL = "hashed-8"
DIMENSION = 8
PIPELINE_VERSION = "1"
PATH = "docs/guide.md"


def identity(
    subject: str = "ann", *, tenant: str = TENANT, groups: Sequence[str] = (), scopes: Sequence[str] = ()
) -> Identity:
    return Identity(subject=subject, tenant=tenant, groups=tuple(groups), scopes=tuple(scopes))


def file_entry(
    path: str = PATH,
    content: bytes | str = b"# Guide\n\nOne paragraph.\n",
    *,
    acl: Sequence[str] | None = None,
    last_modified: datetime | None = None,
) -> FileEntry:
    body = content.encode() if isinstance(content, str) else content
    return FileEntry(
        path=path,
        blob_sha=blob_sha_of(body),
        acl=None if acl is None else tuple(acl),
        last_modified=last_modified,
        size_bytes=len(body),
    )


def source_file(
    path: str = PATH,
    content: bytes | str = b"# Guide\n\nOne paragraph.\n",
    *,
    acl: Sequence[str] | None = None,
    last_modified: datetime | None = None,
) -> SourceFile:
    body = content.encode() if isinstance(content, str) else content
    return SourceFile(entry=file_entry(path, body, acl=acl, last_modified=last_modified), content=body)


def blob_key(
    path: str = PATH,
    content: bytes | str = b"# Guide\n\nOne paragraph.\n",
    *,
    tenant: str = TENANT,
    repo_id: str = REPO_ID,
    pipeline_version: str = PIPELINE_VERSION,
    embedding_model: str = EMBEDDING_MODEL,
) -> BlobKey:
    body = content.encode() if isinstance(content, str) else content
    return BlobKey(
        tenant=tenant,
        repo_id=repo_id,
        path=path,
        blob_sha=blob_sha_of(body),
        pipeline_version=pipeline_version,
        embedding_model=embedding_model,
    )


def chunk(
    content: str = "One paragraph.",
    *,
    path: str = PATH,
    layer: Layer = Layer.D3_SECTION_INDEX,
    ordinal: int = 0,
    title: str = "Guide",
    context: str = "",
    span: tuple[int, int] = (1, 1),
    metadata: Mapping[str, Any] | None = None,
) -> Chunk:
    return Chunk(
        path=path,
        layer=layer,
        ordinal=ordinal,
        title=title,
        context=context,
        content=content,
        span=Span(start=span[0], end=span[1]),
        metadata=metadata or {},
    )


def unit_vector(text: str, dimension: int = DIMENSION) -> Vector:
    """A vector of unit length that depends on the text alone."""
    seed = int(blob_sha_of(text.encode("utf-8", "surrogatepass"))[:16], 16)
    vector = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def words(text: str) -> dict[str, int]:
    """Lower-case words and their counts: a stand-in for the analyser where a test is not about it."""
    return dict(Counter(re.findall(r"\w+", text.lower())))


def embedded_chunk(
    content: str = "One paragraph.",
    *,
    path: str = PATH,
    layer: Layer = Layer.D3_SECTION_INDEX,
    ordinal: int = 0,
    title: str = "Guide",
    context: str = "",
    span: tuple[int, int] = (1, 1),
    metadata: Mapping[str, Any] | None = None,
    embedding: Vector | None = None,
    dimension: int = DIMENSION,
    term_counts: Mapping[str, int] | None = None,
) -> EmbeddedChunk:
    made = chunk(
        content,
        path=path,
        layer=layer,
        ordinal=ordinal,
        title=title,
        context=context,
        span=span,
        metadata=metadata,
    )
    if embedding is None and layer in EMBEDDED_LAYERS:
        embedding = unit_vector(made.embedded_text, dimension)
    return EmbeddedChunk(
        chunk=made,
        embedding=embedding,
        terms=TermCounts.of(words(made.embedded_text) if term_counts is None else term_counts),
        text_key=text_key_of(made.embedded_text),
    )


def prepared_blob(
    path: str = PATH,
    content: bytes | str = b"# Guide\n\nOne paragraph.\n",
    *,
    chunks: Sequence[EmbeddedChunk] | None = None,
    key: BlobKey | None = None,
    notes: Sequence[Note] = (),
    links: Sequence[Link] = (),
    dimension: int = DIMENSION,
) -> PreparedBlob:
    """A prepared file; without `chunks` it has one D3 chunk for each paragraph."""
    body = content.encode() if isinstance(content, str) else content
    if chunks is None:
        paragraphs = [part.strip() for part in body.decode().split("\n\n") if part.strip()]
        chunks = [
            embedded_chunk(paragraph, path=path, ordinal=ordinal, dimension=dimension)
            for ordinal, paragraph in enumerate(paragraphs)
        ]
    return PreparedBlob(
        key=key or blob_key(path, body), source=body, chunks=tuple(chunks), notes=tuple(notes), links=tuple(links)
    )


def job(
    job_id: str = "job-00000000000000000000000001",
    *,
    session_id: str = "docs",
    tenant: str = "acme",
    kind: JobKind = JobKind.SNAPSHOT,
    created_at: datetime = datetime(2026, 11, 30, 12, tzinfo=UTC),
) -> Job:
    """A job that awaits its upload."""
    folder, ending = ("uploads", "tar.gz") if kind is JobKind.SNAPSHOT else ("changes", "jsonl")
    return Job(
        job_id=job_id,
        session_id=session_id,
        tenant=tenant,
        kind=kind,
        status=JobStatus.AWAITING_UPLOAD,
        object_key=f"{folder}/{session_id}/{job_id}.{ending}",
        created_at=created_at,
        updated_at=created_at,
    )


def job_id(number: int) -> str:
    return f"job-{number:026d}"
