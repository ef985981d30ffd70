"""PgBouncer in transaction mode before a Postgres: a connection to it has another backend in each transaction."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import psycopg

from tests.support.ports import server_port
from tests.support.postgres import TestDatabase

WHY_NOT = "PgBouncer is not installed (Debian: apt-get install pgbouncer)"
BACKENDS = 2
"""Of each user and database: fewer than there are clients, so that they take turns on each."""


def pgbouncer() -> str | None:
    """The program, if it is installed; Debian keeps it where only root looks."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")


@dataclass(frozen=True, kw_only=True)
class Pooler:
    port: int
    log: Path

    def before(self, url: str) -> str:
        """The same database and user, through the pooler."""
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{self.port}"))

    def pooled(self, database: TestDatabase) -> TestDatabase:
        """As a deployment has it: the functions come through the pooler, the owner (who migrates) does not."""
        return replace(database, index_url=self.before(database.index_url), query_url=self.before(database.query_url))


@contextmanager
def transaction_pooler(owner_url: str) -> Iterator[Pooler]:
    """It knows every user of the server that the owner's URL names, by the verifiers that the server keeps.

    No startup parameter is ignored and no backend is reset after a transaction: what a client leaves behind, the next
    one on that backend would meet.
    """
    program, owner = pgbouncer(), urlsplit(owner_url)
    assert program is not None, WHY_NOT
    folder = Path(tempfile.mkdtemp(prefix="strata-pooler-"))
    log, port = folder / "log", server_port()
    (folder / "users").write_text(f'"{unquote(owner.username or "")}" "{unquote(owner.password or "")}"\n')
    (folder / "pgbouncer.ini").write_text(
        f"""
[databases]
* = host={owner.hostname} port={owner.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder / "users"}
auth_user = {unquote(owner.username or "")}
pool_mode = transaction
default_pool_size = {BACKENDS}
max_client_conn = 200
query_wait_timeout = 60
logfile = {log}
pidfile =
"""
    )
    # It refuses to run as root, as Postgres does.
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    as_user: dict[str, Any] = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    for path in (folder, folder / "users", folder / "pgbouncer.ini"):
        if user is not None:
            os.chown(path, user.pw_uid, user.pw_gid)
    process = subprocess.Popen(
        [program, "--quiet", str(folder / "pgbouncer.ini")],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_user,
    )  # fmt: skip
    pooler = Pooler(port=port, log=log)
    try:
        _wait_for(pooler.before(owner_url), process, log)
        yield pooler
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=20)
        finally:
            process.kill()
            shutil.rmtree(folder, ignore_errors=True)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path, timeout_s: float = 30.0) -> None:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end and process.poll() is None:
        with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=5, prepare_threshold=None):
            return
        time.sleep(0.05)
    raise RuntimeError(f"PgBouncer did not start:\n{log.read_text(errors='replace')[-2000:] if log.exists() else ''}")
