"""Which form of an answer the caller asks for."""

from __future__ import annotations


def wants_json(accept: str | None) -> bool:
    """Whether `Accept` prefers `application/json` to `text/event-stream`; a stream where it says neither.

    >>> wants_json(None), wants_json("application/json"), wants_json("*/*"), wants_json("text/event-stream, */*;q=0.1")
    (False, True, False, False)
    """
    weights = {"application/json": -1.0, "text/event-stream": -1.0}
    for part in (accept or "").split(","):
        media_type, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if media_type in weights:
            weights[media_type] = max(weights[media_type], _weight(parameters))
    return weights["application/json"] > max(weights["text/event-stream"], 0.0)


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
