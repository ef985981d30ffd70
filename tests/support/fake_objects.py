"""An `ObjectStore` in memory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import BinaryIO

from strata.errors import (
    UploadRejected,
    UploadTooLarge,
)
from strata.ports.objects import PresignedPost, StoredObject


class FakeObjectStore:
    """Objects in a dict; every put is a new version."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts = 0

    def put(self, key: str, body: bytes, *, content_type: str) -> StoredObject:
        self.puts += 1
        self.objects[key] = body
        return StoredObject(key=key, size_bytes=len(body), version=f"v{self.puts}")

    def head(self, key: str, *, version: str | None = None) -> StoredObject | None:
        if key not in self.objects:
            return None
        return StoredObject(key=key, size_bytes=len(self.objects[key]), version=f"v{self.puts}")

    @contextmanager
    def download(self, key: str, *, version: str | None = None, max_bytes: int) -> Iterator[BinaryIO]:
        if key not in self.objects:
            raise UploadRejected
        if len(self.objects[key]) > max_bytes:
            raise UploadTooLarge
        yield io.BytesIO(self.objects[key])

    def remove_all(self, prefix: str, *, before: datetime) -> None:
        for key in [key for key in self.objects if key.startswith(prefix)]:
            del self.objects[key]

    def presigned_post(self, key: str, *, max_bytes: int, content_type: str, expires_in_s: int) -> PresignedPost:
        fields = {"key": key, "Content-Type": content_type}
        return PresignedPost(url="http://bucket.test/", fields=fields, expires_in_s=expires_in_s)
