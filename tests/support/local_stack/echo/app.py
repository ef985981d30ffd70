"""A buffered handler that does what its path asks for."""

from __future__ import annotations

import base64
import json
import os
import time
from typing import Any


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    name = (event["pathParameters"] or {}).get("name", "")
    query = event["queryStringParameters"] or {}
    match name:
        case "crash":
            os._exit(3)
        case "raise":
            raise ValueError("a secret detail")
        case "malformed":
            return {"body": "no status"}
        case "large":
            return {"statusCode": 200, "body": "x" * (6 * 1024 * 1024)}
        case "binary":
            return {
                "statusCode": 200,
                "multiValueHeaders": {"set-cookie": ["a=1", "b=2"], "content-type": ["application/octet-stream"]},
                "body": base64.b64encode(bytes(range(256))).decode(),
                "isBase64Encoded": True,
            }
    time.sleep(float(query.get("sleep_s", 0)))
    document = {
        "event": event,
        "pid": os.getpid(),
        "environment": dict(os.environ),
        "remaining_ms": context.get_remaining_time_in_millis(),
    }
    return {"statusCode": 200, "headers": {"content-type": "application/json"}, "body": json.dumps(document)}
