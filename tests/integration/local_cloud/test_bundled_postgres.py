"""The bundled Postgres: passwords, restarts, and what it says when it can't run."""

from __future__ import annotations

import importlib.util
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from strata_local.errors import PostgresUnavailable
from strata_local.postgres import BundledPostgres, DatabaseUrls, existing_database, make_reachable


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # Not pytest's own folder: under root that is closed to the user whom the server runs as.
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def server_in(folder: Path) -> BundledPostgres:
    return BundledPostgres(
        folder / "postgres", log_path=folder / "postgres.log", passwords_file=folder / "passwords.json"
    )


@pytest.fixture(scope="module")
def urls(folder: Path) -> Iterator[DatabaseUrls]:
    server = server_in(folder)
    yield server.start()
    server.stop()


_ON_A_TERMINAL = """
import os, pty, sys
status = pty.spawn([sys.executable, "-c", sys.argv[1], sys.argv[2]])
sys.exit(os.waitstatus_to_exitcode(status))
"""
_START = """
import sys
from pathlib import Path
from strata_local.postgres import BundledPostgres
folder = Path(sys.argv[1])
server = BundledPostgres(folder / "postgres", log_path=folder / "log", passwords_file=folder / "passwords.json")
server.start()
server.stop()
print("started", flush=True)
"""


def test_its_first_start_on_a_terminal_asks_nothing() -> None:
    with tempfile.TemporaryDirectory() as name:
        said = subprocess.run(
            [sys.executable, "-c", _ON_A_TERMINAL, _START, name],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False, start_new_session=True,
        )  # fmt: skip
    assert (said.returncode, said.stdout.split()) == (0, ["started"]), said.stdout + said.stderr


def test_it_has_pgvector_and_folds_every_alphabet(urls: DatabaseUrls) -> None:
    with psycopg.connect(urls.owner, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        row = connection.execute("SELECT '[1,2]'::vector <-> '[1,2]'::vector, lower('ПРИВЕТ'), version()").fetchone()
    assert row is not None
    assert row[:2] == (0.0, "привет")
    assert row[2].startswith("PostgreSQL 18")


def test_a_password_is_asked_for(urls: DatabaseUrls) -> None:
    without = urls.owner.replace(urls.owner.split(":")[2].split("@")[0], "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(without)


def test_it_listens_on_the_loopback_interface_alone(urls: DatabaseUrls) -> None:
    with psycopg.connect(urls.owner) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert connection.execute("SHOW unix_socket_directories").fetchone() == ("",)


def test_the_functions_urls_are_those_of_their_roles(urls: DatabaseUrls) -> None:
    with psycopg.connect(urls.owner, autocommit=True) as connection:
        for role, password in urls.passwords.items():
            connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'")
    for url, role in ((urls.index, "strata_index"), (urls.query, "strata_query")):
        with psycopg.connect(url) as connection:
            row = connection.execute(
                "SELECT current_user::text, rolsuper FROM pg_roles WHERE rolname = current_user"
            ).fetchone()
            assert row == (role, False)


def test_an_existing_database_keeps_its_owner_and_gets_our_roles(urls: DatabaseUrls, tmp_path: Path) -> None:
    found = existing_database(urls.owner, tmp_path / "passwords.json")
    assert found.owner == urls.owner
    assert found.query.startswith("postgresql://strata_query:")
    assert found.query.rpartition("@")[2] == urls.owner.rpartition("@")[2]
    assert existing_database(urls.owner, tmp_path / "passwords.json") == found


def test_rows_are_kept_from_run_to_run_and_no_process_is_left() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = server_in(folder)
        with psycopg.connect(first.start().owner, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        pid = int((folder / "postgres" / "postmaster.pid").read_text().split()[0])
        first.stop()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        second = server_in(folder)
        try:
            with psycopg.connect(second.start().owner) as connection:
                assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
        finally:
            second.stop()
        assert (folder / "passwords.json").stat().st_mode & 0o077 == 0


def test_a_start_that_was_cut_off_is_begun_anew() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "postgres.new").mkdir()
        (folder / "postgres.new" / "PG_VERSION").write_text("18\n")
        server = server_in(folder)
        try:
            with psycopg.connect(server.start().owner) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
        finally:
            server.stop()


def test_files_of_another_version_are_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("16\n")
    (tmp_path / "passwords.json").write_text('{"postgres": "x", "strata_index": "x", "strata_query": "x"}')
    with pytest.raises(PostgresUnavailable, match="strata down --wipe"):
        server_in(tmp_path).start()


def test_a_server_that_cannot_start_names_the_way_around(folder: Path) -> None:
    broken = BundledPostgres(
        folder / "broken", log_path=folder / "broken.log", passwords_file=folder / "passwords.json"
    )
    broken.start()
    broken.stop()
    (folder / "broken" / "global" / "pg_control").unlink()
    with pytest.raises(PostgresUnavailable, match="STRATA_DATABASE_URL"):
        broken.start()


def test_a_machine_without_the_wheel_is_told_the_way_around(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PostgresUnavailable, match="STRATA_DATABASE_URL"):
        server_in(folder)


@pytest.mark.parametrize("url", ["host=localhost dbname=x", "mysql://a@b/c", ""])
def test_an_owner_url_of_another_kind_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(PostgresUnavailable, match="postgresql://"):
        existing_database(url, tmp_path / "passwords.json")


def test_a_database_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(PostgresUnavailable, match="STRATA_DATABASE_URL"):
        existing_database("postgresql://nobody@127.0.0.1:1/none", tmp_path / "passwords.json")


def test_another_user_may_pass_through_the_folders_and_read_none_of_them(tmp_path: Path) -> None:
    private = tmp_path / "private"
    inner = private / "inner"
    inner.mkdir(parents=True)
    private.chmod(0o700)
    inner.chmod(0o750)

    make_reachable(inner)

    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (private, inner)] == [0o701, 0o751]
