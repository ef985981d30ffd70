"""What the two restricted roles may do, with every explicit filter left out."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors, sql

from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.sessions import PostgresSessionStore
from tests.support.factories import blob_key, file_entry, identity, prepared_blob
from tests.support.postgres import PostgresServer, TestDatabase
from tests.support.session_store_contract import commit_request, create_session

TABLES = [
    "rag_sessions", "rag_indexes", "rag_index_layers", "rag_terms", "rag_index_terms", "rag_chunks",
    "rag_chunk_vectors", "rag_chunk_terms", "rag_term_blocks", "rag_block_rows", "rag_session_chunk_map",
    "rag_blob_cache", "rag_chunk_cache",
    "schema_migrations",
]  # fmt: skip
READABLE = {
    "rag_sessions", "rag_indexes", "rag_index_layers", "rag_terms", "rag_index_terms", "rag_chunks",
    "rag_chunk_vectors", "rag_chunk_terms", "rag_term_blocks", "rag_block_rows", "rag_links", "rag_blob_cache",
}  # fmt: skip
ANN = ("acme", ["user:ann"])


@pytest.fixture(scope="module")
def filled(postgres_server: PostgresServer) -> Iterator[TestDatabase]:
    """`ann`'s session, read by `group:dev`: open.md for all of them, dev.md for `group:dev`, secret.md for nobody;
    a prepared file that no session holds; a session of another tenant with an owner of the same name.
    """
    with postgres_server.fresh_database() as postgres:
        database = Database(postgres.index_url)
        store, cache = PostgresSessionStore(database), PostgresBlobCache(database)
        create_session(store, "ann-1", readers=["group:dev"])
        create_session(store, "rival-1", identity("ann", tenant="rival"))
        acls = {"open.md": None, "dev.md": ["group:dev"], "secret.md": []}
        blobs = [prepared_blob(path, f"text of {path}") for path in acls]
        rival = prepared_blob("rival.md", "rival", key=blob_key("rival.md", "rival", tenant="rival"))
        cache.keep([*blobs, rival, prepared_blob("unused.md", "never committed")])
        for seq, blob in enumerate(blobs, start=1):
            store.commit(commit_request(blob, seq=seq, session_id="ann-1", acl=acls[blob.key.path]))
        store.commit(commit_request(rival, session_id="rival-1"))
        database.close()
        yield postgres


def visible(
    database: TestDatabase, column: str, table: str, caller: tuple[str, list[str]] | None, *, index: str = ""
) -> set[str]:
    """The values of a column that the query role sees without any filter, acting for the caller and about an index."""
    with psycopg.connect(database.query_url) as connection:
        if caller is not None:
            tenant, principals = caller
            connection.execute(
                "SELECT set_config('strata.tenant', %s, true), set_config('strata.principals', %s, true)",
                [tenant, json.dumps(principals)],
            )
        connection.execute("SELECT set_config('strata.index', %s, true)", [index])
        rows = connection.execute(
            sql.SQL("SELECT {} FROM {}").format(sql.Identifier(column), sql.Identifier(table))
        ).fetchall()
    return {value for (value,) in rows}


@pytest.mark.parametrize("table", ["rag_chunks", "rag_blob_cache"])
@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        pytest.param(None, set(), id="nothing set"),
        pytest.param(("acme", []), set(), id="no principals"),
        pytest.param(("", ["user:ann"]), set(), id="no tenant"),
        pytest.param(ANN, {"open.md"}, id="the owner is no exception to a file's list"),
        pytest.param(("acme", ["user:bob", "group:dev"]), {"open.md", "dev.md"}, id="a reader by group"),
        pytest.param(("acme", ["user:bob"]), set(), id="a stranger"),
        pytest.param(("other", ["user:ann", "group:dev"]), set(), id="the same names in another tenant"),
        pytest.param(("rival", ["user:ann"]), {"rival.md"}, id="the other tenant's owner"),
        pytest.param(("acme", ["group:de", "group:dev2", "dev"]), set(), id="names that only look alike"),
    ],
)
def test_a_caller_sees_only_what_it_may_read(
    filled: TestDatabase, table: str, caller: tuple[str, list[str]] | None, expected: set[str]
) -> None:
    assert visible(filled, "path", table, caller) == expected


@pytest.mark.parametrize("table", ["rag_chunks", "rag_blob_cache"])
def test_the_index_that_is_asked_about_is_no_right(filled: TestDatabase, table: str) -> None:
    with psycopg.connect(filled.owner_url) as connection:
        indexes = [str(number) for (number,) in connection.execute("SELECT index_id FROM rag_indexes").fetchall()]
    assert len(indexes) > 1
    for index in [*indexes, "0", "9223372036854775807"]:
        assert visible(filled, "path", table, None, index=index) == set()
        assert visible(filled, "path", table, ANN, index=index) == {"open.md"}
        assert visible(filled, "path", table, ("acme", ["group:dev"]), index=index) == {"open.md", "dev.md"}
        assert visible(filled, "path", table, ("rival", ["user:ann"]), index=index) == {"rival.md"}
        assert visible(filled, "path", table, ("acme", ["user:bob"]), index=index) == set()


def test_a_caller_sees_only_the_sessions_it_reads(filled: TestDatabase) -> None:
    assert visible(filled, "session_id", "rag_sessions", None) == set()
    assert visible(filled, "session_id", "rag_sessions", ANN) == {"ann-1"}
    assert visible(filled, "session_id", "rag_sessions", ("acme", ["group:dev"])) == {"ann-1"}
    assert visible(filled, "session_id", "rag_sessions", ("rival", ["user:ann"])) == {"rival-1"}


def test_what_was_set_ends_with_the_transaction(filled: TestDatabase) -> None:
    with psycopg.connect(filled.query_url, autocommit=True) as connection:
        with connection.transaction():
            connection.execute(
                "SELECT set_config('strata.tenant', 'acme', true),"
                " set_config('strata.principals', '[\"user:ann\"]', true)"
            )
            assert connection.execute("SELECT count(*) FROM rag_chunks").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM rag_chunks").fetchone() == (0,)


def test_rights_that_are_taken_away_hide_at_once(postgres: TestDatabase) -> None:
    database = Database(postgres.index_url)
    store, cache = PostgresSessionStore(database), PostgresBlobCache(database)
    create_session(store)
    blob = prepared_blob("a.md", "text")
    cache.keep([blob])
    store.commit(commit_request(blob))
    assert visible(postgres, "path", "rag_blob_cache", ANN) == {"a.md"}
    store.commit(commit_request(seq=2, rights=[file_entry("a.md", "text", acl=["user:bob"])]))
    database.close()
    for table in ("rag_chunks", "rag_blob_cache"):
        assert visible(postgres, "path", table, ANN) == set()


@pytest.mark.parametrize("role", ["strata_index", "strata_query"])
def test_neither_role_can_pass_the_wall(filled: TestDatabase, role: str) -> None:
    with psycopg.connect(filled.owner_url) as connection:
        row = connection.execute(
            """
            SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication,
                   (SELECT count(*) FROM pg_class AS c WHERE c.relowner = r.oid),
                   (SELECT count(*) FROM pg_auth_members AS m WHERE m.member = r.oid)
            FROM pg_roles AS r WHERE rolname = %s
            """,
            [role],
        ).fetchone()
    assert row == (False, False, False, False, False, 0, 0)


def test_the_query_role_reads_its_tables_and_writes_none(filled: TestDatabase) -> None:
    """Every relation is looked at, so a table that a later migration adds is too; also each partition by itself."""
    with psycopg.connect(filled.owner_url) as connection:
        rows = connection.execute(
            """
            SELECT c.relname, p.privilege
            FROM pg_class AS c
            CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'])
                AS p (privilege)
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
              AND has_table_privilege('strata_query', c.oid, p.privilege)
            """
        ).fetchall()
        sequences = connection.execute(
            """
            SELECT relname FROM pg_class
            WHERE CASE WHEN relkind = 'S' THEN has_sequence_privilege('strata_query', oid, 'USAGE, UPDATE') END
            """
        ).fetchall()
    assert set(rows) == {(table, "SELECT") for table in READABLE}
    assert sequences == []


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "TRUNCATE {}", "INSERT INTO {} DEFAULT VALUES"])
def test_the_query_role_cannot_write(filled: TestDatabase, table: str, statement: str) -> None:
    with psycopg.connect(filled.query_url) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(sql.SQL(statement).format(sql.Identifier(table)))


@pytest.mark.parametrize("role", ["index", "query"])
@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("CREATE TABLE mine (n int)", id="table"),
        pytest.param("CREATE TEMPORARY TABLE mine (n int)", id="temporary table"),
        pytest.param("CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'", id="function"),
        pytest.param("ALTER TABLE rag_chunks DISABLE ROW LEVEL SECURITY", id="the wall itself"),
        pytest.param("SELECT count(*) FROM rag_chunks_0", id="a partition behind the wall"),
        pytest.param("UPDATE schema_migrations SET checksum = ''", id="the ledger"),
        pytest.param("SET ROLE postgres", id="another role"),
    ],
)
def test_neither_role_can_change_the_schema(filled: TestDatabase, role: str, statement: str) -> None:
    url = {"index": filled.index_url, "query": filled.query_url}[role]
    with (
        psycopg.connect(url) as connection,
        pytest.raises((errors.InsufficientPrivilege, errors.InvalidParameterValue)),
    ):
        connection.execute(statement.encode())


def test_only_the_index_role_tidies(filled: TestDatabase) -> None:
    with psycopg.connect(filled.index_url) as connection:
        connection.execute("SELECT strata_tidy(1)")
    with psycopg.connect(filled.query_url) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute("SELECT strata_tidy(1)")


def test_the_wall_costs_index_lookups_not_scans(filled: TestDatabase) -> None:
    """The plan for a few winners holds no sequential scan of chunks or of sessions."""
    with psycopg.connect(filled.query_url) as connection:
        connection.execute("SELECT set_config('enable_seqscan', 'off', true)")
        plan = connection.execute(
            "EXPLAIN SELECT content FROM rag_chunks WHERE index_id = 1 AND chunk_id = ANY (ARRAY[1, 2, 3]::bigint[])"
        ).fetchall()
    text = "\n".join(line for (line,) in plan)
    assert "Seq Scan" not in text
    assert text.count("rag_chunks_") >= 1
