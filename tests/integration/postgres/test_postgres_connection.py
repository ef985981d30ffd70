"""One connection that is lost, old or refused, and what a caller sees of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from strata.errors import ConfigurationError, StaleFence, StoreUnavailable
from strata.storage.postgres.connection import Connection, Database, connect
from strata.storage.postgres.sessions import PostgresSessionStore
from tests.support.postgres import PostgresServer, TestDatabase

Run = Callable[[Callable[[Connection], object]], object]


@pytest.fixture
def database(module_postgres: TestDatabase) -> Iterator[Database]:
    database = Database(module_postgres.index_url)
    yield database
    database.close()


def backend(connection: Connection) -> int:
    return connection.info.backend_pid


def end_backend(database: TestDatabase, pid: int) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def test_the_connection_is_kept(database: Database) -> None:
    assert database.transact(backend) == database.transact(backend)


def test_a_connection_that_was_lost_meanwhile_is_made_anew(database: Database, module_postgres: TestDatabase) -> None:
    first = database.transact(backend)
    end_backend(module_postgres, first)

    def work(connection: Connection) -> int:
        connection.execute("SELECT 1")
        return backend(connection)

    assert database.transact(work) != first


@pytest.mark.parametrize("method", ["transact", "pipelined"])
def test_a_connection_that_is_lost_in_the_middle_is_tried_once_more(
    database: Database, module_postgres: TestDatabase, method: str
) -> None:
    tries: list[int] = []

    def work(connection: Connection) -> object:
        tries.append(backend(connection))
        if len(tries) == 1:
            end_backend(module_postgres, tries[0])
        return connection.execute("SELECT 42")

    run: Run = getattr(database, method)
    cursor = run(work)
    assert isinstance(cursor, psycopg.Cursor)
    assert cursor.fetchone() == (42,)
    assert len(set(tries)) == 2


def test_a_connection_that_is_lost_twice_is_a_temporary_error(
    database: Database, module_postgres: TestDatabase
) -> None:
    tries: list[int] = []

    def work(connection: Connection) -> None:
        tries.append(backend(connection))
        end_backend(module_postgres, tries[-1])
        connection.execute("SELECT 1")

    with pytest.raises(StoreUnavailable):
        database.transact(work)
    assert len(tries) == 2


def test_what_was_done_before_the_loss_is_rolled_back(database: Database, module_postgres: TestDatabase) -> None:
    tries: list[int] = []

    def work(connection: Connection) -> None:
        tries.append(backend(connection))
        connection.execute("INSERT INTO rag_terms (term) VALUES (%s)", [f"try {len(tries)}"])
        if len(tries) == 1:
            end_backend(module_postgres, tries[0])

    database.transact(work)
    found = database.transact(lambda c: c.execute("SELECT term FROM rag_terms WHERE term LIKE 'try %'").fetchall())
    assert found == [("try 2",)]


def test_an_error_of_ours_rolls_back_and_passes(database: Database) -> None:
    def work(connection: Connection) -> None:
        connection.execute("INSERT INTO rag_terms (term) VALUES ('refused')")
        raise StaleFence

    with pytest.raises(StaleFence):
        database.transact(work)
    count = database.transact(lambda c: c.execute("SELECT count(*) FROM rag_terms WHERE term = 'refused'").fetchone())
    assert count == (0,)


@pytest.mark.parametrize("method", ["transact", "pipelined"])
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param("SELECT * FROM no_such_table", ConfigurationError, id="not migrated"),
        pytest.param("SELECT * FROM schema_migrations", ConfigurationError, id="not allowed"),
        pytest.param("SELECT 1 / 0", psycopg.errors.DivisionByZero, id="a fault of ours stays what it is"),
    ],
)
def test_an_error_is_translated_and_the_connection_serves_on(
    database: Database, method: str, statement: str, expected: type[Exception]
) -> None:
    run: Run = getattr(database, method)
    before = database.transact(backend)
    with pytest.raises(expected):
        run(lambda connection: connection.execute(statement.encode()))
    cursor = run(lambda connection: connection.execute("SELECT 1"))
    assert isinstance(cursor, psycopg.Cursor)
    assert cursor.fetchone() == (1,)
    assert database.transact(backend) == before


def test_a_statement_over_its_time_limit_is_a_temporary_error(database: Database) -> None:
    def work(connection: Connection) -> None:
        connection.execute("SELECT set_config('statement_timeout', '20', true)")
        connection.execute("SELECT pg_sleep(5)")

    with pytest.raises(StoreUnavailable):
        database.transact(work)


def test_a_server_that_became_a_replica_is_asked_once_more(database: Database) -> None:
    tries: list[int] = []

    def work(connection: Connection) -> None:
        tries.append(backend(connection))
        if len(tries) == 1:
            connection.execute("SELECT set_config('transaction_read_only', 'on', true)")
        connection.execute("INSERT INTO rag_terms (term) VALUES ('after the failover')")

    database.transact(work)
    assert len(set(tries)) == 2


def test_a_process_that_stood_still_in_a_transaction_begins_again(database: Database) -> None:
    """The server ends such a transaction, so that a frozen function holds no row for long."""
    tries: list[int] = []

    def work(connection: Connection) -> object:
        tries.append(backend(connection))
        if len(tries) == 1:
            connection.execute("SELECT set_config('idle_in_transaction_session_timeout', '50', true)")
            time.sleep(0.5)
        return connection.execute("SELECT 42").fetchone()

    assert database.transact(work) == (42,)
    assert len(set(tries)) == 2


@pytest.mark.parametrize("url", ["index_url", "query_url"])
def test_the_roles_have_that_limit(module_postgres: TestDatabase, url: str) -> None:
    with psycopg.connect(getattr(module_postgres, url)) as connection:
        assert connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("1min",)


def test_a_database_without_our_tables_says_what_to_run(postgres_server: PostgresServer) -> None:
    with postgres_server.fresh_database(migrated=False) as empty:
        database = Database(empty.owner_url)
        with pytest.raises(ConfigurationError, match=r"strata\.storage\.postgres\.migrate"):
            PostgresSessionStore(database).get("any")
        database.close()


def test_a_server_that_is_not_there_is_a_temporary_error() -> None:
    started = time.monotonic()
    with pytest.raises(StoreUnavailable) as caught:
        Database("postgresql://u:s3cret@127.0.0.1:1/x").transact(backend)
    assert "s3cret" not in caught.value.message
    assert time.monotonic() - started < 5


def test_an_old_connection_is_replaced(module_postgres: TestDatabase) -> None:
    database = Database(module_postgres.index_url, max_age_s=0.0)
    assert database.transact(backend) != database.transact(backend)
    database.close()


def test_a_closed_database_opens_again(database: Database) -> None:
    first = database.transact(backend)
    database.close()
    database.close()
    assert database.transact(backend) != first


def test_threads_take_turns(database: Database) -> None:
    def work(connection: Connection) -> tuple[object, object]:
        first = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
        connection.execute("SELECT pg_sleep(0.01)")
        return first, connection.execute("SELECT pg_current_xact_id()::text").fetchone()

    with ThreadPoolExecutor(4) as pool:
        pairs = list(pool.map(lambda _: database.transact(work), range(8)))
    assert all(first == second for first, second in pairs)
    assert len({first for first, _ in pairs}) == 8


def test_nothing_stays_on_the_connection(database: Database) -> None:
    """A proxy would pin a session that has prepared statements or settings of its own."""
    for _ in range(12):
        database.transact(lambda connection: connection.execute("SELECT %s::int", [1]))
    prepared = database.transact(lambda c: c.execute("SELECT count(*) FROM pg_prepared_statements").fetchone())
    assert prepared == (0,)


def test_the_url_goes_before_the_defaults(module_postgres: TestDatabase) -> None:
    with connect(f"{module_postgres.index_url}?application_name=mine&connect_timeout=3") as connection:
        parameters = connection.info.get_parameters()
    assert (parameters["application_name"], parameters["connect_timeout"]) == ("mine", "3")
    assert parameters["keepalives_idle"] == "30"


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("postgresql://u:s3cret@127.0.0.1/x?options=-c%20jit%3Doff", id="options, which a proxy refuses"),
        pytest.param("postgresql://u:s3cret@127.0.0.1/x?no_such=1", id="a parameter that is none"),
        pytest.param("mysql://u:s3cret@127.0.0.1/x", id="another scheme"),
    ],
)
def test_a_url_that_cannot_work_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        connect(url)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
