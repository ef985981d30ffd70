"""Vectors kept between runs: a text is embedded once a model, whatever set or step asks for it."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from strata.indexing.wrapping import WrappedEmbedder
from strata.model.corpus import Vector, Vectors

_BATCH = 256
"""Texts of one write: what an interrupted run has embedded so far is kept."""
_LOOKUP = 500


class VectorCache:
    """A SQLite file: the hash of model and text → the vector's bytes. Many processes may use it at the same time.

    A connection must not be used on both sides of a fork, so each process opens its own.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._connections: dict[int, sqlite3.Connection] = {}
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
        )

    @property
    def _connection(self) -> sqlite3.Connection:
        process = os.getpid()
        if process not in self._connections:
            self._connections[process] = sqlite3.connect(self._path, timeout=60.0, check_same_thread=False)
            self._connections[process].execute("PRAGMA synchronous = NORMAL")
        return self._connections[process]

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        found: dict[bytes, Vector] = {}
        for start in range(0, len(keys), _LOOKUP):
            part = keys[start : start + _LOOKUP]
            marks = ",".join("?" * len(part))
            rows = self._connection.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part)  # noqa: S608
            found.update((key, np.frombuffer(vector, dtype=np.float32)) for key, vector in rows)
        return found

    def put(self, vectors: Sequence[tuple[bytes, Vector]]) -> None:
        with self._connection:
            self._connection.executemany(
                "INSERT OR IGNORE INTO vectors (key, vector) VALUES (?, ?)",
                [(key, vector.astype(np.float32).tobytes()) for key, vector in vectors],
            )

    def close(self) -> None:
        self._connection.close()


def _silent(done: int, total: int) -> None:
    """Nobody is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedEmbedder(WrappedEmbedder):
    """An embedder that asks the cache first. `fingerprint` names the weights: another file's vectors never match.

    `advanced(done, total)` is called while texts are embedded that the cache does not have.
    """

    cache: VectorCache
    fingerprint: str
    advanced: Callable[[int, int], None] = field(default=_silent)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        keys = [self._key("document", text) for text in texts]
        known = self.cache.get(keys)
        missing = list({key: text for key, text in zip(keys, texts, strict=True) if key not in known}.items())
        for start in range(0, len(missing), _BATCH):
            part = missing[start : start + _BATCH]
            vectors = self.embedder.embed_documents([text for _, text in part])
            new = [(key, vector) for (key, _), vector in zip(part, vectors, strict=True)]
            self.cache.put(new)
            known.update(new)
            self.advanced(min(start + _BATCH, len(missing)), len(missing))
        return np.stack([known[key] for key in keys])

    def embed_query(self, text: str) -> Vector:
        key = self._key("query", text)
        if (found := self.cache.get([key]).get(key)) is not None:
            return found
        vector = self.embedder.embed_query(text)
        self.cache.put([(key, vector)])
        return vector

    def _key(self, kind: str, text: str) -> bytes:
        whole = f"{self.model_id}\0{self.fingerprint}\0{kind}\0{text}"
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).digest()
