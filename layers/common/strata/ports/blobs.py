"""Prepared files by content (Postgres)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from strata.model.chat import ModelUsage
from strata.model.corpus import BlobKey, Note, PreparedBlob, Vector


class BlobCache(Protocol):
    """Prepared files by content (Postgres)."""

    def present(self, keys: Collection[BlobKey]) -> set[BlobKey]: ...

    def contents(self, keys: Collection[BlobKey]) -> dict[BlobKey, bytes]:
        """The bytes of these files where they are on record, whatever model or pipeline prepared them."""
        ...

    def notes(self, keys: Collection[BlobKey]) -> dict[str, tuple[Note, ...]]:
        """By path, what parsers say about those of these files that they say anything about."""
        ...

    def in_new_process(self) -> BlobCache:
        """The same cache for a process that was just forked: a connection can't be shared."""
        ...

    def earlier_vectors(self, keys: Collection[BlobKey]) -> Mapping[bytes, Vector]:
        """The vectors of the last prepared version of each of these files, whatever its content: of the same tenant,
        repository, path, pipeline and model, by `EmbeddedChunk.text_key`. As they are stored, in half precision.
        """
        ...

    def usage(self, keys: Collection[BlobKey], *, since: datetime) -> ModelUsage:
        """What chat models used for those of these files that were kept since then."""
        ...

    def keep(self, blobs: Sequence[PreparedBlob]) -> None:
        """Store prepared files in one transaction; one that is there already stays as it is. Safe to repeat.

        Raises `SessionNotFound` when the last session of their repository was deleted.
        """
        ...
