"""Many chunks out of few: copies of real ones, each a little different, so that sizes and distributions stay real."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from strata.indexing import PIPELINE_VERSION
from strata.indexing.chunking import Chunker
from strata.indexing.prepare import embed, parse_file
from strata.model.corpus import BlobKey, EmbeddedChunk, FileEntry, PreparedBlob, SourceFile, blob_sha_of
from strata.model.jobs import Counters
from strata.ports import BlobCache, CommitRequest, Embedder, SessionStore
from strata_bench.corpus import Corpus

NOISE = 0.35
"""Length of the noise that is added to a unit vector: two copies of a chunk have a cosine of about 0.9."""
CHANGED_TERMS = 0.25
"""Share of a chunk's distinct terms that come from another chunk."""
COMMIT_CHUNKS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownSession:
    """A session that gets copies; `base` are the chunks of the real files, in the order of their paths."""

    session_id: str
    tenant: str
    base: Sequence[EmbeddedChunk]
    cache: BlobCache
    sessions: SessionStore
    embedding_model: str

    def grow(self, wanted: int) -> int:
        """Commit copies until the session holds at least `wanted` chunks; the number that it then holds."""
        session = self.sessions.get(self.session_id)
        if session is None:
            raise LookupError(self.session_id)
        files = len(self.sessions.indexed_files(self.session_id))
        chunks, seq = self._chunks_of(files), session.applied_seq
        while chunks < wanted:
            blobs: list[PreparedBlob] = []
            while sum(len(blob.chunks) for blob in blobs) < min(COMMIT_CHUNKS, wanted - chunks):
                blobs.append(self._copy(files + len(blobs)))
            files += len(blobs)
            seq += 1
            self.cache.keep(blobs)
            chunks = self.sessions.commit(_commit(self.session_id, seq, blobs)).chunks
        return chunks

    def _chunks_of(self, files: int) -> int:
        by_file = [len(list(group)) for _, group in groupby(self.base, key=lambda chunk: chunk.chunk.path)]
        rounds, rest = divmod(files, len(by_file))
        return rounds * len(self.base) + sum(by_file[:rest])

    def _copy(self, number: int) -> PreparedBlob:
        """The `number`th file: the same number gives the same copy."""
        by_file = [list(group) for _, group in groupby(self.base, key=lambda chunk: chunk.chunk.path)]
        turn, place = divmod(number, len(by_file))
        chunks = [
            perturbed(chunk, self.base, seed=number * 1_000 + i, turn=turn) for i, chunk in enumerate(by_file[place])
        ]
        path = chunks[0].chunk.path
        source = "\n".join(chunk.chunk.content for chunk in chunks).encode()
        key = BlobKey(
            tenant=self.tenant,
            repo_id=self.session_id,
            path=path,
            blob_sha=blob_sha_of(source),
            pipeline_version=PIPELINE_VERSION,
            embedding_model=self.embedding_model,
        )
        return PreparedBlob(key=key, source=source, chunks=tuple(chunks))


def perturbed(chunk: EmbeddedChunk, others: Sequence[EmbeddedChunk], *, seed: int, turn: int) -> EmbeddedChunk:
    """A copy under another folder; the first (`turn` 0) is the chunk as it is."""
    copied = replace(chunk.chunk, path=f"copy-{turn:05}/{chunk.chunk.path}")
    if turn == 0:
        return replace(chunk, chunk=copied)
    chance = np.random.default_rng(seed)
    vector = chunk.embedding + chance.normal(scale=NOISE / np.sqrt(len(chunk.embedding)), size=len(chunk.embedding))
    counts = dict(chunk.term_counts)
    foreign = list(others[int(chance.integers(len(others)))].term_counts)
    for term in list(counts):
        if foreign and chance.random() < CHANGED_TERMS:
            counts[foreign[int(chance.integers(len(foreign)))]] = counts.pop(term)
    return EmbeddedChunk(
        chunk=copied, embedding=(vector / np.linalg.norm(vector)).astype(np.float32), term_counts=counts
    )


def embedded_chunks(corpus: Corpus, embedder: Embedder, *, at_most: int) -> list[EmbeddedChunk]:
    """The chunks of the corpus' files, spread over all of it, until there are `at_most`."""
    chunker = Chunker(counter=embedder)
    chunks: list[EmbeddedChunk] = []
    for path in sorted(corpus.files, key=lambda path: hashlib.sha256(path.encode()).digest()):
        if len(chunks) >= at_most:
            break
        content = corpus.files[path].encode()
        entry = FileEntry(path=path, blob_sha=blob_sha_of(content), size_bytes=len(content))
        chunks += embed(parse_file(SourceFile(entry=entry, content=content), chunker).chunks, embedder)
    return chunks


def _commit(session_id: str, seq: int, blobs: Sequence[PreparedBlob]) -> CommitRequest:
    return CommitRequest(
        session_id=session_id,
        job_id=f"job-{session_id}-{seq}",
        seq=seq,
        fence=seq,
        upserts=tuple(
            FileEntry(path=blob.key.path, blob_sha=blob.key.blob_sha, size_bytes=len(blob.source)) for blob in blobs
        ),
        keys={blob.key.path: blob.key for blob in blobs},
        rights=(),
        deletes=(),
        counters=Counters(indexed_files=len(blobs)),
    )
