"""An error reply → `StrataApiError`."""

from __future__ import annotations

import json

from strata_client.errors import StrataApiError


def api_error(status: int, body: bytes) -> StrataApiError:
    """An error reply → `StrataApiError`, whoever wrote the body: Strata, a gateway, S3 or a proxy."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        error = answer.get("error")
        if isinstance(error, dict):
            return StrataApiError(status, str(error.get("code", "error")), str(error.get("message", "")))
        if isinstance(answer.get("message"), str):
            return StrataApiError(status, f"http_{status}", answer["message"])
    text = body[:2_000].decode("utf-8", "replace")
    code, message = _between(text, "Code"), _between(text, "Message")
    if code and message:
        return StrataApiError(status, code, f"The upload was refused: {message}")
    return StrataApiError(status, f"http_{status}", f"The server answered with HTTP {status} and no reason.")


def _between(text: str, tag: str) -> str:
    """The text of an XML element without attributes or children, as S3's errors have them."""
    _, opened, rest = text.partition(f"<{tag}>")
    value, closed, _ = rest.partition(f"</{tag}>")
    return value if opened and closed else ""
