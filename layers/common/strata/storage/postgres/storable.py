"""What a text column and a jsonb column can hold: the one place where text is made fit for Postgres."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

MAX_TERM_BYTES = 512
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str)


def storable_text(text: str) -> str:
    """NUL and lone surrogates become U+FFFD, one for one, so lines and lengths stay as they were.

    >>> storable_text("a\\x00b")
    'a\ufffdb'
    """
    if text.isascii() and "\x00" not in text:
        return text
    return UNSTORABLE.sub(REPLACEMENT, text)


def storable_json(value: Mapping[str, Any]) -> str:
    """JSON text for a jsonb column; what JSON has no type for (say, a date) is written as its `str`.

    Raises `ValueError` for NaN and infinity.
    """
    text = _JSON.encode(value)
    if "\\u0000" in text:
        text = json.dumps(_storable_value(json.loads(text)), ensure_ascii=False, allow_nan=False)
    return storable_text(text)


def are_storable_terms(terms: Collection[str]) -> bool:
    """Whether the dictionary can hold all of them as they are; False may also mean that it takes a closer look."""
    return max(map(len, terms), default=0) * 4 <= MAX_TERM_BYTES and not UNSTORABLE.search("".join(terms))


def storable_term(term: str) -> str:
    """The term as the dictionary can hold it: text made storable and cut at 512 bytes."""
    return storable_text(term).encode()[:MAX_TERM_BYTES].decode(errors="ignore")


def _storable_value(value: Any) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, list):
        return [_storable_value(item) for item in value]
    if isinstance(value, dict):
        return {storable_text(key): _storable_value(item) for key, item in value.items()}
    return value
