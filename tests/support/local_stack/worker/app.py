"""A worker that writes each event that it gets into a folder, and fails where the key says so."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any


def on_upload(event: dict[str, Any], context: Any) -> None:
    folder = Path(os.environ["RECORD_FOLDER"])
    key = event["Records"][0]["s3"]["object"]["key"]
    attempts_before = sum(key in path.read_text() for path in folder.glob("*.json"))
    unfinished = folder / str(uuid.uuid4())
    unfinished.write_text(json.dumps({"event": event, "request_id": context.aws_request_id}))
    unfinished.rename(unfinished.with_suffix(".json"))
    if "crash-always" in key or ("crash-once" in key and attempts_before == 0):
        os._exit(9)
    if "raise-once" in key and attempts_before == 0:
        raise ConnectionError("try again")
