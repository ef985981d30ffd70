"""`QueryCache` in DynamoDB: what a question found, for a while."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from botocore.exceptions import ClientError

from strata.errors import StoreUnavailable
from strata.model.asking import Also, Candidate, Retrieved
from strata.model.corpus import Layer, Span
from strata.ports.clock import Clock
from strata.storage.dynamodb.client import STORE, Table

MAX_BODY_BYTES = 350_000
"""An item holds 400 KB at most; what is larger is searched again each time."""

_FORMAT = "2"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoQueryCache:
    """A `QueryCache` and a `TextCache`: candidates, without explanations, as compressed JSON under
    `query#<format>#<key>`, texts under `text#<key>`.

    The table's key is `pk`, its TTL `expires_at`. DynamoDB removes expired items hours later, so a reader looks at the
    time too. An item that can't be read (another release wrote it) is absent. Every failure is a `StrataError`.
    """

    table: Table
    clock: Clock

    def get(self, key: str) -> Retrieved | None:
        item = self._get(_item_key(key))
        if item is None:
            return None
        try:
            return _retrieved(json.loads(zlib.decompress(item["body"])))
        except (KeyError, TypeError, ValueError, zlib.error):
            _log.warning("A cached query can't be read; it is searched again.", exc_info=True)
            return None

    def put(self, key: str, retrieved: Retrieved, *, ttl_s: int) -> None:
        """Keep it for `ttl_s` seconds; what is too large for an item is left out."""
        text = json.dumps(asdict(retrieved), ensure_ascii=True, separators=(",", ":"))
        body = zlib.compress(text.encode(), level=1)
        if len(body) > MAX_BODY_BYTES:
            return
        self._put({**_item_key(key), "body": body}, ttl_s)

    def get_text(self, key: str) -> str | None:
        item = self._get(_text_key(key))
        text = None if item is None else item.get("text")
        return text if isinstance(text, str) else None

    def put_text(self, key: str, text: str, *, ttl_s: int) -> None:
        if len(text.encode()) <= MAX_BODY_BYTES:
            self._put({**_text_key(key), "text": text}, ttl_s)

    def _get(self, key: dict[str, str]) -> Mapping[str, Any] | None:
        with _failures():
            item = self.table.get(key)
        return None if item is None or int(item.get("expires_at", 0)) <= self.clock.now().timestamp() else item

    def _put(self, item: Mapping[str, Any], ttl_s: int) -> None:
        with _failures():
            self.table.put({**item, "expires_at": int(self.clock.now().timestamp()) + ttl_s})


def _item_key(key: str) -> dict[str, str]:
    return {"pk": f"query#{_FORMAT}#{key}"}


def _text_key(key: str) -> dict[str, str]:
    return {"pk": f"text#{key}"}


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise StoreUnavailable(f"{STORE} refused a cached query.") from error


def _retrieved(data: Mapping[str, Any]) -> Retrieved:
    return Retrieved(
        candidates=tuple(_candidate(candidate) for candidate in data["candidates"]),
        generation=data["generation"],
        embedding_model=data["embedding_model"],
        best_distance=data["best_distance"],
        greatest_bm25=data["greatest_bm25"],
    )


def _candidate(data: Mapping[str, Any]) -> Candidate:
    also = tuple(Also(**{**row, **_place(row)}) for row in data["also"])
    return Candidate(**{**data, **_place(data), "also": also, "explanation": None})


def _place(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"layer": Layer(data["layer"]), "span": Span(**data["span"])}
