"""moto's S3 in a process of its own: its memory is not ours."""

from __future__ import annotations

import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from strata_local.free_ports import free_port
from strata_local.processes import Child

BUCKET = "bench"
START_LIMIT_S = 60.0


def s3_client(url: str) -> Any:
    return boto3.session.Session().client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106 - moto asks for any
    )


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """The URL of a server that has the bucket."""
    port, log = free_port(), folder / "s3.log"
    with log.open("wb") as output:
        server = Child(
            [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)],
            environment={},
            folder=folder,
            output=output,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(server, url, log)
            s3_client(url).create_bucket(Bucket=BUCKET)
            yield url
        finally:
            server.stop(first=signal.SIGTERM, patience_s=5.0)


def _wait_for(server: Child, url: str, log: Path) -> None:
    limit = time.monotonic() + START_LIMIT_S
    while server.alive and time.monotonic() < limit:
        try:
            with urllib.request.urlopen(f"{url}/moto-api/data.json", timeout=5):  # noqa: S310 - our own server
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError(f"moto's server did not start: {log.read_text(errors='replace')[-500:]}")
