"""A session of very many rows, written by COPY: the rows and statistics that commits would leave, in minutes.

What is left out is what no search reads: the content cache, links and provenance. Commits go on from there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strata.model.corpus import EmbeddedChunk, Layer
from strata.retrieval.bm25 import K1, B
from strata.retrieval.statements.lexical import TERM_SPACE
from strata.storage.postgres import copying, term_blocks
from strata.storage.postgres.connection import Connection, connect
from strata.storage.postgres.sessions import NEAREST_ROWS
from strata_bench.copies import CHANGED_TERMS, NOISE, GrownSession, readers_of

TEXT_OID = 25
_LAYERS = tuple(Layer)
_TABLES = {
    "rag_chunks": "index_id, chunk_id, blob_id, path, layer, ordinal, title, content, span_start, span_end, metadata, "
    "blob_sha, acl",
    "rag_chunk_vectors": "index_id, chunk_id, layer, path, acl, embedding",
    "rag_chunk_terms": "index_id, chunk_id, layer, path, acl, term_keys, weights",
}


@dataclass(frozen=True, slots=True)
class Base:
    """The chunks that are copied, as arrays. `terms`, `counts` and `chunk_of` are flat: one entry for each term of each
    chunk, a chunk's terms side by side; `vectors` has the shape (chunks, dimension), with zeros for a chunk without."""

    chunks: tuple[EmbeddedChunk, ...]
    vectors: NDArray[np.float32]
    terms: NDArray[np.int64]
    counts: NDArray[np.float64]
    chunk_of: NDArray[np.int64]
    files: tuple[int, ...]
    """How many chunks each file has."""
    layers: NDArray[np.int64]
    """Of each chunk, as a place in `Layer`."""
    average_lengths: NDArray[np.float64]
    """Of each layer; 1 for a layer without chunks."""

    @classmethod
    def of(cls, chunks: Sequence[EmbeddedChunk], connection: Connection) -> Base:
        """Terms without a number get one."""
        counted = [chunk.terms.by_term for chunk in chunks]
        texts = sorted(set(chain.from_iterable(counted)))
        connection.execute(
            "INSERT INTO rag_terms (term) SELECT unnest(%s::text[]) ON CONFLICT (term) DO NOTHING", [texts]
        )
        ids: dict[str, int] = dict(
            connection.execute("SELECT term, term_id FROM rag_terms WHERE term = ANY (%s)", [texts]).fetchall()
        )
        layers = np.array([_LAYERS.index(chunk.chunk.layer) for chunk in chunks])
        held = np.bincount(layers, minlength=len(_LAYERS))
        lengths = np.bincount(layers, weights=[chunk.length for chunk in chunks], minlength=len(_LAYERS))
        return cls(
            chunks=tuple(chunks),
            vectors=_stacked(chunks),
            terms=np.array([ids[term] for counts in counted for term in counts], dtype=np.int64),
            counts=np.array([count for counts in counted for count in counts.values()], dtype=np.float64),
            chunk_of=np.repeat(np.arange(len(chunks)), list(map(len, counted))),
            layers=layers,
            average_lengths=np.maximum(lengths / np.maximum(held, 1), 1.0),
            files=tuple(len(list(found)) for _, found in groupby(chunks, key=lambda chunk: chunk.chunk.path)),
        )


def _stacked(chunks: Sequence[EmbeddedChunk]) -> NDArray[np.float32]:
    dimension = max(len(chunk.embedding) for chunk in chunks if chunk.embedding is not None)
    none = np.zeros(dimension, dtype=np.float32)
    return np.stack([none if chunk.embedding is None else chunk.embedding for chunk in chunks])


@dataclass(slots=True, kw_only=True)
class BulkSession:
    """Like `GrownSession`, which goes on with `churn`.

    Where it never `tidies`, pending lists and the planner's statistics wait for `tidy_all`.
    """

    grown: GrownSession
    base: Base
    url: str
    tidies: bool = True
    _frequencies: NDArray[np.int64] = field(init=False)
    _greatest: NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        shape = (len(_LAYERS), int(self.base.terms.max()) + 1)
        self._frequencies = np.zeros(shape, dtype=np.int64)
        self._greatest = np.zeros(shape, dtype=np.float32)

    def grow(self, wanted: int) -> int:
        """Write copies until the session holds at least `wanted` chunks; the number that it then holds."""
        with connect(self.url) as connection:
            connection.execute("SET gin_pending_list_limit = '2GB'")  # merged at the end, at once
            (index_id,) = connection.execute(
                "SELECT active_index_id FROM rag_sessions WHERE session_id = %s", [self.grown.session_id]
            ).fetchone() or (0,)
            while self.grown.chunks < wanted:
                turn, place = divmod(self.grown.first + self.grown.files, len(self.base.files))
                files = self.base.files[place:]
                written = np.cumsum(files)
                count = int(np.searchsorted(written, wanted - self.grown.chunks) + 1)
                self._write(connection, index_id, turn, place, min(count, len(files)))
            self._statistics(connection, index_id)
            if self.tidies:
                connection.execute("SELECT strata_tidy(%s)", [index_id])
                connection.execute("SELECT strata_build_nearest(%s, %s)", [index_id, NEAREST_ROWS])
                with connection.transaction():
                    term_blocks.build(connection, index_id)
        return self.grown.chunks

    def churn(self, commits: int, *, files: int = 3) -> None:
        self.grown.churn(commits, files=files)

    def _write(self, connection: Connection, index_id: int, turn: int, place: int, files: int) -> None:
        """One round of copies, from the file at `place` on."""
        first = sum(self.base.files[:place])
        chunks = sum(self.base.files[place : place + files])
        chance = np.random.default_rng((turn, place))
        vectors = self._vectors(chance, first, chunks)
        terms, weights, ends = self._terms(chance, first, chunks)
        (last,) = connection.execute(
            "SELECT setval('rag_chunk_ids', nextval('rag_chunk_ids') + %s)", [chunks]
        ).fetchone() or (0,)
        numbers = np.repeat(np.arange(place, place + files), self.base.files[place : place + files])
        readers = [_texts(readers_of(turn * len(self.base.files) + int(number))) for number in numbers]
        sizes = np.diff(ends, prepend=0).tolist()
        keys = copying.int8_arrays((index_id << 32) | terms, sizes)
        sparse = copying.sparsevecs(terms, weights, TERM_SPACE, sizes)
        rows: dict[str, list[bytes]] = {table: [copying.HEADER] for table in _TABLES}
        for number in range(chunks):
            chunk = self.base.chunks[first + number].chunk
            path, layer = copying.text(f"copy-{turn:05}/{chunk.path}"), copying.text(chunk.layer)
            name = (copying.int8(index_id), copying.int8(last - chunks + number))
            rows["rag_chunks"].append(
                copying.row(
                    (
                        *name,
                        copying.int8(0),
                        path,
                        layer,
                        copying.int4(chunk.ordinal),
                        copying.text(chunk.title),
                        copying.text(chunk.content),
                        copying.int4(chunk.span.start),
                        copying.int4(chunk.span.end),
                        copying.jsonb("{}"),
                        copying.text(f"{turn}-{chunk.path}"),
                        readers[number],
                    )
                )
            )
            if self.base.chunks[first + number].embedding is not None:
                rows["rag_chunk_vectors"].append(
                    copying.row((*name, layer, path, readers[number], copying.halfvec(vectors[number])))
                )
            rows["rag_chunk_terms"].append(copying.row((*name, layer, path, readers[number], next(keys), next(sparse))))
        for table, columns in _TABLES.items():
            with connection.cursor().copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(b"".join([*rows[table], copying.TRAILER]))
        self.grown.files += files
        self.grown.chunks += chunks

    def _vectors(self, chance: Any, first: int, chunks: int) -> NDArray[np.float32]:
        base = self.base.vectors[first : first + chunks]
        made = base + chance.standard_normal(base.shape, dtype=np.float32) * (NOISE / np.sqrt(base.shape[1]))
        found: NDArray[np.float32] = made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-9)
        return found

    def _terms(
        self, chance: Any, first: int, chunks: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Terms and weights of all the chunks, flat, ascending in each chunk, and where each chunk's end."""
        low, high = np.searchsorted(self.base.chunk_of, [first, first + chunks])
        chunk_of = self.base.chunk_of[low:high] - first
        terms = self.base.terms[low:high].copy()
        changed = chance.random(len(terms)) < CHANGED_TERMS
        terms[changed] = chance.choice(self.base.terms, size=int(changed.sum()))
        _, kept = np.unique((chunk_of << 32) | terms, return_index=True)
        chunk_of, terms, counts = chunk_of[kept], terms[kept], self.base.counts[low:high][kept]
        lengths = np.bincount(chunk_of, weights=counts, minlength=chunks)
        layers = self.base.layers[first : first + chunks]
        relative = (lengths / self.base.average_lengths[layers])[chunk_of]
        weights = (counts * (K1 + 1) / (counts + K1 * (1 - B + B * relative))).astype(np.float32)
        np.add.at(self._frequencies, (layers[chunk_of], terms), 1)
        np.maximum.at(self._greatest, (layers[chunk_of], terms), weights)
        return terms, weights, np.cumsum(np.bincount(chunk_of, minlength=chunks))

    def _statistics(self, connection: Connection, index_id: int) -> None:
        """What the commits would have counted: of all the session's rows, which only this object has written."""
        connection.execute("DELETE FROM rag_index_terms WHERE index_id = %s", [index_id])
        connection.execute("DELETE FROM rag_index_layers WHERE index_id = %s", [index_id])
        connection.execute(
            """
            INSERT INTO rag_index_layers (index_id, layer, chunk_count, pinned_average_length)
            SELECT index_id, layer, count(*), average_length
            FROM rag_chunk_terms JOIN unnest(%s::text[], %s::float8[]) AS pinned (layer, average_length) USING (layer)
            WHERE index_id = %s GROUP BY index_id, layer, average_length
            """,
            [list(_LAYERS), self.base.average_lengths.tolist(), index_id],
        )
        columns = "index_id, layer, term_id, document_frequency, greatest_weight"
        with connection.cursor().copy(f"COPY rag_index_terms ({columns}) FROM STDIN") as copy:
            copy.write("".join(self._counted(index_id)))

    def _counted(self, index_id: int) -> Iterator[str]:
        for number, term_id in zip(*np.nonzero(self._frequencies), strict=True):
            frequency, greatest = self._frequencies[number, term_id], self._greatest[number, term_id]
            yield f"{index_id}\t{_LAYERS[number]}\t{term_id}\t{frequency}\t{greatest:.9g}\n"


def tidy_all(url: str) -> None:
    """What follows each session's first commit, once for all of them: every partition, and the small tables."""
    with connect(url) as connection:
        held = connection.execute("SELECT DISTINCT ON (tableoid) index_id FROM rag_chunk_terms").fetchall()
        for (index_id,) in held:
            connection.execute("SELECT strata_tidy(%s)", [index_id])
        connection.execute("ANALYZE rag_sessions, rag_indexes, rag_index_layers, rag_index_terms")


def _texts(values: Sequence[str]) -> bytes:
    """A field of the type text[]."""
    parts = [struct.pack(">iiiii", 1, 0, TEXT_OID, len(values), 1)]
    for value in values:
        parts += (struct.pack(">i", len(value.encode())), value.encode())
    return copying.bytea(b"".join(parts))
