"""A small project to index, and the steps from its files to a finished job."""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strata_client.client import StrataClient
from strata_client.wire import JobView

GUIDE = """# Webhooks

## Retries
A failed webhook delivery is retried five times with exponential backoff.

## Secrets
Reset the webhook secret on the settings page; the old secret stays valid for one hour.
"""
CODE = '''"""Delivers webhooks."""

MAX_ATTEMPTS = 5


def deliver_webhook(url: str, payload: bytes) -> int:
    """Send the payload once and return the HTTP status."""
    return 200
'''
FILES = {"docs/webhooks.md": GUIDE, "src/delivery.py": CODE, "README.md": "# Courier\n\nCourier delivers webhooks.\n"}


def tar_gz(files: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in files.items():
            content = text if isinstance(text, bytes) else text.encode("utf-8")
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def snapshot(client: StrataClient, session: str, archive: bytes, format: Any = "tar.gz") -> JobView:
    opened = client.create_session(session, format=format)
    assert opened["upload"] is not None
    with tempfile.NamedTemporaryFile() as file:
        file.write(archive)
        file.flush()
        client.upload(opened["upload"], Path(file.name))
    return client.wait_for(opened["job"]["job_id"], timeout_s=120)


def send_change(api_url: str, session: str, path: str, content: str) -> str:
    """For a sender in a process of its own: the job's name."""
    with StrataClient(api_url) as client:
        return client.changes(session, [{"op": "upsert", "path": path, "content": content}])["job_id"]


def paths_found(client: StrataClient, session: str, query: str) -> list[str]:
    return [row["path"] for row in client.retrieve(session, query, limit=20)["rows"]]
