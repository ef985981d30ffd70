"""Many chunks out of few: copies of real ones, each a little different, so that sizes and distributions stay real."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from strata.indexing import PIPELINE_VERSION
from strata.indexing.chunking.chunker import Chunker
from strata.indexing.prepare import embed, parse_file
from strata.indexing.text_length import text_counter
from strata.model.corpus import BlobKey, EmbeddedChunk, FileEntry, PreparedBlob, SourceFile, Vector, blob_sha_of
from strata.model.terms import TermCounts
from strata.ports.blobs import BlobCache
from strata.ports.embedding import Embedder
from strata.ports.sessions import SessionStore
from strata_bench.corpus import Corpus
from strata_bench.given import commit_blobs

NOISE = 0.35
"""Length of the noise that is added to a unit vector: two copies of a chunk have a cosine of about 0.9."""
CHANGED_TERMS = 0.25
"""Share of a chunk's distinct terms that come from another chunk."""
COMMIT_CHUNKS = 5_000
_SHARES = (("group:tenth", 10), ("group:hundredth", 100), ("group:thousandth", 1_000))


@dataclass(slots=True, kw_only=True)
class GrownSession:
    """A session that gets one file after another: copies of the files whose chunks are `base`, round after round.

    A file is read by `group:all`, each tenth also by `group:tenth`, and so on. `first` is the number of its first file:
    sessions that begin at numbers far apart hold different copies.
    """

    session_id: str
    tenant: str
    base: Sequence[EmbeddedChunk]
    cache: BlobCache
    sessions: SessionStore
    embedding_model: str
    first: int = 0
    files: int = 0
    chunks: int = 0

    def grow(self, wanted: int) -> int:
        """Commit copies until the session holds at least `wanted` chunks; the number that it then holds."""
        by_file = self._by_file()
        while self.chunks < wanted:
            numbers: list[int] = []
            chunks = 0
            while chunks < min(COMMIT_CHUNKS, wanted - self.chunks):
                number = self.first + self.files + len(numbers)
                numbers.append(number)
                chunks += len(by_file[number % len(by_file)])
            self.write(numbers)
            self.files += len(numbers)
        return self.chunks

    def churn(self, commits: int, *, files: int = 3) -> None:
        """Rewrite a few files at a time, again and again."""
        chance = np.random.default_rng(commits)
        for turn in range(1, commits + 1):
            chosen = chance.choice(self.files, size=files, replace=False)
            self.write([self.first + int(number) for number in chosen], version=turn)

    def write(self, numbers: Sequence[int], *, version: int = 0) -> None:
        """One commit of these files; another version is another copy of the same size."""
        by_file = self._by_file()
        blobs = [self._copy(by_file, number, version) for number in numbers]
        readers = {blob.key.path: readers_of(number) for number, blob in zip(numbers, blobs, strict=True)}
        self.chunks = commit_blobs(self.session_id, blobs, readers, sessions=self.sessions, cache=self.cache)

    def _by_file(self) -> list[list[EmbeddedChunk]]:
        return [list(chunks) for _, chunks in groupby(self.base, key=lambda chunk: chunk.chunk.path)]

    def _copy(self, by_file: Sequence[Sequence[EmbeddedChunk]], number: int, version: int) -> PreparedBlob:
        """The `number`th file: the same number and version give the same copy."""
        turn, place = divmod(number, len(by_file))
        chunks = [
            perturbed(chunk, self.base, seed=(number, version, i), turn=turn) for i, chunk in enumerate(by_file[place])
        ]
        source = "\n".join([*(chunk.chunk.content for chunk in chunks), f"{number}.{version}"]).encode()
        key = BlobKey(
            tenant=self.tenant,
            repo_id=self.session_id,
            path=chunks[0].chunk.path,
            blob_sha=blob_sha_of(source),
            pipeline_version=PIPELINE_VERSION,
            embedding_model=self.embedding_model,
        )
        return PreparedBlob(key=key, source=source, chunks=tuple(chunks))


def readers_of(number: int) -> tuple[str, ...]:
    return ("group:all", *(group for group, share in _SHARES if number % share == share - 1))


def perturbed(
    chunk: EmbeddedChunk, others: Sequence[EmbeddedChunk], *, seed: tuple[int, ...], turn: int
) -> EmbeddedChunk:
    """A copy under another folder."""
    chance = np.random.default_rng(seed)
    counts = chunk.terms.by_term
    foreign = list(others[int(chance.integers(len(others)))].terms.by_term)
    for term in list(counts):
        if foreign and chance.random() < CHANGED_TERMS:
            counts[foreign[int(chance.integers(len(foreign)))]] = counts.pop(term)
    return EmbeddedChunk(
        chunk=replace(chunk.chunk, path=f"copy-{turn:05}/{chunk.chunk.path}"),
        embedding=None if chunk.embedding is None else _noisy(chunk.embedding, chance),
        terms=TermCounts.of(counts),
    )


def _noisy(vector: Vector, chance: np.random.Generator) -> Vector:
    noisy = vector + chance.normal(scale=NOISE / np.sqrt(len(vector)), size=len(vector))
    moved: Vector = (noisy / np.linalg.norm(noisy)).astype(np.float32)
    return moved


def embedded_chunks(corpus: Corpus, embedder: Embedder, *, at_most: int) -> list[EmbeddedChunk]:
    """The chunks of the corpus' files, drawn from all of it, until there are `at_most`."""
    chunker = Chunker(counter=text_counter(embedder))
    chunks: list[EmbeddedChunk] = []
    for path in sorted(corpus.files, key=lambda path: hashlib.sha256(path.encode()).digest()):
        if len(chunks) >= at_most:
            break
        content = corpus.files[path].encode()
        entry = FileEntry(path=path, blob_sha=blob_sha_of(content), size_bytes=len(content))
        chunks += embed(parse_file(SourceFile(entry=entry, content=content), chunker).chunks, embedder)
    return chunks
