"""What is remembered for a while (DynamoDB with TTL)."""

from __future__ import annotations

from typing import Protocol

from strata.model.asking import Retrieved


class TextCache(Protocol):
    """Short texts by key, for a while (DynamoDB with TTL)."""

    def get_text(self, key: str) -> str | None: ...

    def put_text(self, key: str, text: str, *, ttl_s: int) -> None: ...


class QueryCache(Protocol):
    """The exact cache of retrieved candidates (DynamoDB with TTL)."""

    def get(self, key: str) -> Retrieved | None: ...

    def put(self, key: str, retrieved: Retrieved, *, ttl_s: int) -> None: ...
