"""Migrations: once, in order, alone, and never a half."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from strata.errors import ConfigurationError
from strata.storage.postgres import migrate as module
from strata.storage.postgres.migrate import ROLES, Migration, main, migrate, migrations
from tests.support.index_statistics import CACHED_COUNTS, CACHED_IDS
from tests.support.postgres import PASSWORD, PostgresServer, TestDatabase

NAMES = [migration.name for migration in migrations()]
PASSWORDS = dict.fromkeys(ROLES, PASSWORD)
BROKEN = Migration("9999_broken", "CREATE TABLE half (n int); SELECT 1 / 0", "0" * 64)


@pytest.fixture
def empty(postgres_server: PostgresServer) -> Iterator[TestDatabase]:
    with postgres_server.fresh_database(migrated=False) as database:
        yield database


def rows(database: TestDatabase, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database.owner_url) as connection:
        return connection.execute(query.encode()).fetchall()


def test_an_empty_database_is_brought_to_this_version_once(empty: TestDatabase) -> None:
    assert migrate(empty.owner_url) == NAMES
    assert migrate(empty.owner_url) == []
    assert rows(empty, "SELECT name, checksum FROM schema_migrations ORDER BY name") == [
        (migration.name, migration.checksum) for migration in migrations()
    ]


def test_the_roles_of_the_cluster_may_be_there_already(empty: TestDatabase, postgres_server: PostgresServer) -> None:
    migrate(empty.owner_url)
    with postgres_server.fresh_database(migrated=False) as second:
        assert migrate(second.owner_url, passwords=PASSWORDS) == NAMES
        with psycopg.connect(second.query_url) as connection:
            assert connection.execute("SELECT count(*) FROM rag_chunks").fetchone() == (0,)


def test_many_at_once_apply_each_file_once(empty: TestDatabase) -> None:
    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(lambda _: migrate(empty.owner_url), range(4)))
    assert sorted(name for names in applied for name in names) == NAMES


def test_two_databases_of_a_cluster_at_once(postgres_server: PostgresServer) -> None:
    with (
        postgres_server.fresh_database(migrated=False) as one,
        postgres_server.fresh_database(migrated=False) as two,
        ThreadPoolExecutor(2) as pool,
    ):
        assert list(pool.map(migrate, [one.owner_url, two.owner_url])) == [NAMES, NAMES]


def test_a_file_that_was_changed_after_it_had_been_applied_is_refused(
    empty: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(empty.owner_url)
    changed = [migration._replace(checksum="0" * 64) for migration in migrations()]
    monkeypatch.setattr(module, "migrations", lambda: [*changed, BROKEN])
    with pytest.raises(ConfigurationError, match="was changed"):
        migrate(empty.owner_url)


def test_a_migration_that_fails_leaves_nothing_and_can_be_repeated(
    empty: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = migrations()
    monkeypatch.setattr(module, "migrations", lambda: [*real, BROKEN])
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(empty.owner_url)
    assert rows(empty, "SELECT to_regclass('half')") == [(None,)]
    assert [name for (name,) in rows(empty, "SELECT name FROM schema_migrations ORDER BY name")] == NAMES
    repaired = BROKEN._replace(text="CREATE TABLE half (n int)")
    monkeypatch.setattr(module, "migrations", lambda: [*real, repaired])
    assert migrate(empty.owner_url) == [BROKEN.name]


def test_a_database_that_is_newer_is_refused(empty: TestDatabase) -> None:
    migrate(empty.owner_url)
    with psycopg.connect(empty.owner_url) as connection:
        connection.execute("INSERT INTO schema_migrations (name, checksum) VALUES ('9999_later', '')")
    with pytest.raises(ConfigurationError, match="9999_later"):
        migrate(empty.owner_url)


def test_an_old_pgvector_is_refused(empty: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_PGVECTOR", (99, 0, 0))
    with pytest.raises(ConfigurationError, match=r"pgvector 99\.0\.0"):
        migrate(empty.owner_url)
    assert rows(empty, "SELECT to_regclass('schema_migrations')") == [(None,)]


def test_an_owner_needs_no_superuser(postgres_server: PostgresServer, empty: TestDatabase) -> None:
    """As on managed Postgres: an owner who may make roles; the tidying function works with the owner's rights."""
    with psycopg.connect(empty.owner_url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(sql.SQL("CREATE ROLE deployer LOGIN CREATEROLE PASSWORD {}").format(sql.Literal(PASSWORD)))
        connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO deployer").format(sql.Identifier(empty.name)))
        try:
            assert migrate(make_conninfo(empty.owner_url, user="deployer", password=PASSWORD)) == NAMES
            assert migrate(empty.owner_url, passwords=PASSWORDS) == []
            with psycopg.connect(empty.index_url) as restricted:
                restricted.execute("SELECT strata_tidy(1)")
        finally:
            connection.execute("REASSIGN OWNED BY deployer TO CURRENT_USER")
            connection.execute("DROP OWNED BY deployer")
            connection.execute("DROP ROLE deployer")


@pytest.mark.parametrize(
    ("give", "take"),
    [
        pytest.param("ALTER ROLE strata_query BYPASSRLS", "ALTER ROLE strata_query NOBYPASSRLS", id="BYPASSRLS"),
        pytest.param("ALTER ROLE strata_index SUPERUSER", "ALTER ROLE strata_index NOSUPERUSER", id="superuser"),
        pytest.param("GRANT {} TO strata_query", "REVOKE {} FROM strata_query", id="member of the owner"),
    ],
)
def test_a_role_that_could_pass_the_wall_is_refused(postgres: TestDatabase, give: str, take: str) -> None:
    with psycopg.connect(postgres.owner_url, autocommit=True) as connection:
        owner = sql.Identifier(connection.info.user)
        connection.execute(sql.SQL(give).format(owner))
        try:
            with pytest.raises(ConfigurationError, match="row-level security"):
                migrate(postgres.owner_url)
        finally:
            connection.execute(sql.SQL(take).format(owner))
    assert migrate(postgres.owner_url) == []


def test_passwords_are_set_and_leave_the_process_as_verifiers(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    execute = psycopg.Connection.execute

    def recorded(self: psycopg.Connection[Any], query: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(query.as_string(self) if isinstance(query, sql.Composable) else str(query))
        return execute(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", recorded)
    password = "pa'ss %s wörd"
    try:
        migrate(postgres.owner_url, passwords=dict.fromkeys(ROLES, password))
        for role in ROLES:
            with psycopg.connect(postgres.owner_url, user=role, password=password) as connection:
                assert connection.info.user == role
    finally:
        monkeypatch.undo()
        migrate(postgres.owner_url, passwords=PASSWORDS)
    assert len([statement for statement in sent if "SCRAM-SHA-256$" in statement]) == len(ROLES)
    assert not [statement for statement in sent if "wörd" in statement]


def test_no_other_role_gets_a_password(postgres: TestDatabase) -> None:
    with pytest.raises(ConfigurationError, match="postgres"):
        migrate(postgres.owner_url, passwords={"postgres": "mine"})


def test_the_command_says_what_it_did(empty: TestDatabase, capsys: pytest.CaptureFixture[str]) -> None:
    assert main({"STRATA_OWNER_DATABASE_URL": empty.owner_url}) == 0
    assert capsys.readouterr().out.splitlines() == [f"applied {name}" for name in NAMES]
    assert main({"STRATA_OWNER_DATABASE_URL": empty.owner_url}) == 0
    assert capsys.readouterr().out == "nothing to apply\n"


@pytest.mark.parametrize(
    ("environment", "status", "said"),
    [
        pytest.param({}, 2, "STRATA_OWNER_DATABASE_URL is not set", id="no URL"),
        pytest.param({"STRATA_OWNER_DATABASE_URL": "s3cret://"}, 1, "libpq URI", id="no libpq URI"),
        pytest.param(
            {"STRATA_OWNER_DATABASE_URL": "postgresql://u:s3cret@127.0.0.1:1/x"}, 1, "can't be reached", id="no server"
        ),
    ],
)
def test_the_command_names_the_fault_and_no_secret(
    capsys: pytest.CaptureFixture[str], environment: dict[str, str], status: int, said: str
) -> None:
    assert main(environment) == status
    error = capsys.readouterr().err
    assert said in error
    assert "s3cret" not in error


def test_lengths_of_files_that_were_cached_before_are_added_up(
    empty: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(module, "migrations", lambda: [each for each in migrations() if each.name < "0175"])
        migrate(empty.owner_url)
    with psycopg.connect(empty.owner_url) as connection:
        for path in ("a.md", "empty.md"):
            connection.execute(
                "INSERT INTO rag_blob_cache (tenant, repo_id, path, blob_sha, pipeline_version, embedding_model,"
                " source) VALUES ('t', 'r', %s, 'x', '1', 'm', '')",
                [path],
            )
        for ordinal, layer, length in ((0, "C", 5), (1, "C", 7), (0, "D", 2)):
            connection.execute(
                "INSERT INTO rag_chunk_cache (blob_id, layer, ordinal, title, content, span_start, span_end, metadata,"
                " term_ids, term_counts, length) SELECT blob_id, %s, %s, '', '', 1, 1, '{}', '{}', '{}', %s"
                " FROM rag_blob_cache WHERE path = 'a.md'",
                [layer, ordinal, length],
            )
    migrate(empty.owner_url)
    assert rows(
        empty,
        "SELECT b.path, l.layer, l.chunks, l.terms FROM rag_blob_cache AS b LEFT JOIN LATERAL"
        " jsonb_to_recordset(b.layer_lengths) AS l (layer text, chunks int, terms int) ON true ORDER BY 1, 2",
    ) == [("a.md", "C", 2, 12), ("a.md", "D", 1, 2), ("empty.md", None, None, None)]


def test_terms_of_chunks_that_were_cached_before_are_packed(
    empty: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(module, "migrations", lambda: [each for each in migrations() if each.name < "0178"])
        migrate(empty.owner_url)
    with psycopg.connect(empty.owner_url) as connection:
        for ordinal, ids, counts in ((0, [3, 70_000, 900_000_000], [1, 2, 300]), (1, [], [])):
            connection.execute(
                "INSERT INTO rag_chunk_cache (blob_id, layer, ordinal, title, content, span_start, span_end, metadata,"
                " term_ids, term_counts, length) VALUES (1, 'C', %s, '', '', 1, 1, '{}', %s::int[], %s::int[], %s)",
                [ordinal, ids, counts, sum(counts)],
            )
    migrate(empty.owner_url)
    assert rows(empty, f"SELECT {CACHED_IDS}, {CACHED_COUNTS} FROM rag_chunk_cache ORDER BY ordinal") == [
        ([3, 70_000, 900_000_000], [1, 2, 300]),
        ([], []),
    ]
