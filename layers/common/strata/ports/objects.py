"""Uploaded content (S3)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    key: str
    size_bytes: int
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PresignedPost:
    """What a client posts as multipart/form-data: every field of `fields`, then `file`."""

    url: str
    fields: Mapping[str, str]
    expires_in_s: int


class ObjectStore(Protocol):
    """S3."""

    def put(self, key: str, body: bytes, *, content_type: str) -> StoredObject: ...

    def head(self, key: str, *, version: str | None = None) -> StoredObject | None: ...

    def download(self, key: str, *, version: str | None = None, max_bytes: int) -> AbstractContextManager[BinaryIO]:
        """The object as a seekable file on local disk, removed at the end; exactly that version of it, or the present
        one where the bucket keeps none. Raises `UploadTooLarge` before reading and `UploadRejected` for one that is
        gone.
        """
        ...

    def remove_all(self, prefix: str, *, before: datetime) -> None:
        """Remove every version of every object under the prefix that is older than that. Safe to repeat."""
        ...

    def presigned_post(self, key: str, *, max_bytes: int, content_type: str, expires_in_s: int) -> PresignedPost: ...
