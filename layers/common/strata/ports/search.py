"""What a caller may read of an index: chunks, files and links (Postgres)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from strata.model.access import Identity
from strata.model.asking import IndexedText, Names, Question, Retrieved
from strata.model.corpus import Layer, Vector
from strata.model.links import Drifted, Links


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A question ready for the database: `embedding` is None for a lexical-only search, `terms` may be empty. Of these
    the `leading_terms` count `bm25.LEADING_WEIGHT` times.

    `names` are what the question asks for letter for letter: rows that hold them are a list of their own; so are the
    neighbours of the best rows over links, unless `structural_weight` is 0. Each list gives `depth` rows to the fusion,
    under its weight. `rows` of the fused ones come back, and never fewer than the question's limit: whoever ranks them
    anew needs more than are shown. Unless `approximate` is false, the dense list of a large index may come from the
    cells nearest to the question instead of a look at every row.
    """

    question: Question
    embedding: Vector | None
    embedding_model: str | None
    terms: tuple[str, ...]
    depth: int
    leading_terms: tuple[str, ...] = ()
    names: Names = field(default_factory=Names)
    rows: int = 0
    dense_weight: float = 1.0
    lexical_weight: float = 1.0
    exact_weight: float = 1.0
    structural_weight: float = 0.0
    approximate: bool = True


class ChunkSearch(Protocol):
    """Reads for one caller (Postgres, as the restricted role, under row-level security)."""

    def search(self, request: SearchRequest) -> Retrieved:
        """Dense and lexical lists of `depth` rows each, fused, best first, at most as many rows as are asked for.

        Raises `SessionNotFound` (also without the right to read it) and `EmbeddingModelMismatch`.
        """
        ...

    def files(
        self, session_id: str, identity: Identity, paths: Sequence[str], *, layers: Sequence[Layer] = (), limit: int
    ) -> Retrieved:
        """The chunks of these paths, unranked (score 0), in the order of the paths; raises `SessionNotFound`."""
        ...

    def generation(self, session_id: str, identity: Identity) -> tuple[int, str]:
        """The session's generation and embedding model; raises `SessionNotFound`."""
        ...

    def sources(self, session_id: str, identity: Identity, chunk_ids: Sequence[int]) -> dict[int, str]:
        """The whole decoded text of the file behind each chunk that the caller may read; others are absent."""
        ...

    def file_page(
        self, session_id: str, identity: Identity, *, after: str, limit: int, most_bytes: int
    ) -> list[IndexedText]:
        """The next files behind the path `after`, in the store's order of paths: at most `limit`, and not another one
        once `most_bytes` are reached. Empty when there are no more; raises `SessionNotFound`.
        """
        ...


class LinkReader(Protocol):
    """Links between files, for one caller: nothing tells of a file that the caller may not read (Postgres)."""

    def links(
        self, session_id: str, identity: Identity, *, path: str | None = None, symbol: str | None = None, limit: int
    ) -> Links:
        """Those of a file, or of a symbol by its qualified name or the end of it; `limit` each way.

        Raises `SessionNotFound`.
        """
        ...

    def drift(self, session_id: str, identity: Identity, *, limit: int) -> list[Drifted]:
        """Names of files and symbols in documents that nothing readable defines, by path and line.

        Raises `SessionNotFound`.
        """
        ...
