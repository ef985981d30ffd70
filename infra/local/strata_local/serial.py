"""moto's DynamoDB, one request at a time.

moto checks a condition and writes in two steps, and undoes a refused transaction by putting back a copy of the whole
table: two requests at once may both pass a condition, and a refused one takes other requests' writes with it.
"""

from __future__ import annotations

import threading
from functools import cache, wraps
from typing import Any

from moto.dynamodb.responses import DynamoHandler


@cache
def serialise_dynamodb() -> None:
    """From now on, and once for all, requests to this process' DynamoDB wait for each other."""
    one_at_a_time = threading.RLock()
    unguarded = DynamoHandler.call_action

    @wraps(unguarded)
    def call_action(handler: DynamoHandler) -> Any:
        with one_at_a_time:
            return unguarded(handler)

    DynamoHandler.call_action = call_action  # type: ignore[method-assign]
