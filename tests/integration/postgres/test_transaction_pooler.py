"""Everything that the functions ask of Postgres, through PgBouncer in transaction mode (a public report's case 65).

Skipped where PgBouncer is not installed. `STRATA_TEST_POOLER=1` puts it before the database of every other test.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import psycopg
import pytest

from strata.errors import SessionNotFound, StoreUnavailable
from strata.storage.postgres.connection import Connection, Database, connect
from strata.storage.postgres.search import PostgresSearch
from tests.integration.indexing.test_index_on_stores import Project
from tests.support.blob_cache_contract import BlobCacheContract
from tests.support.factories import identity
from tests.support.index_statistics import assert_rows_agree
from tests.support.new_index_contract import NewIndexContract
from tests.support.pooler import BACKENDS, WHY_NOT, Pooler, pgbouncer, transaction_pooler
from tests.support.postgres import PostgresServer, TestDatabase
from tests.support.session_store_contract import SessionStoreContract

pytestmark = pytest.mark.skipif(pgbouncer() is None, reason=WHY_NOT)


@pytest.fixture(scope="module")
def own_pooler(postgres_server: PostgresServer) -> Iterator[Pooler]:
    with transaction_pooler(postgres_server.url) as started:
        yield started


@pytest.fixture
def postgres(postgres_server: PostgresServer, own_pooler: Pooler) -> Iterator[TestDatabase]:
    with postgres_server.emptied_database() as database:
        yield own_pooler.pooled(database)


class TestPooledBlobCache(BlobCacheContract):
    pass


class TestPooledSessionStore(SessionStoreContract, NewIndexContract):
    pass


def test_many_clients_index_and_search_over_few_backends(postgres: TestDatabase) -> None:
    """Snapshots in a new index, changes, and readers at the same time: no prepared statement is missing, no setting of
    one reader's (rights, a time limit) reaches another one.
    """
    project = Project(postgres)
    project.snapshot({f"docs/p{n}.md": f"# Page {n}\n\nThe zebra number {n} runs.\n" for n in range(150)})
    with ExitStack() as closing, ThreadPoolExecutor(8) as pool:

        def generations(number: int) -> set[int]:
            database = Database(postgres.query_url)
            closing.callback(database.close)
            search, seen = PostgresSearch(database), set()
            for turn in range(30):
                if (number + turn) % 2:
                    with pytest.raises(SessionNotFound):
                        search.generation("docs", identity("eve"))
                else:
                    seen.add(search.generation("docs", identity())[0])
            return seen

        asking = [pool.submit(generations, number) for number in range(8)]
        for n in range(10):
            project.change({"path": f"docs/p{n}.md", "op": "delete"}, {"path": f"new{n}.md", "content": f"lion {n}\n"})
            assert project.found(f"lion {n}")
        seen = set().union(*(future.result() for future in asking))
    assert seen <= set(range(1, 12))
    assert {row.path for row in project.found("zebra", limit=200)}.isdisjoint({f"docs/p{n}.md" for n in range(10)})
    project.close()
    assert_rows_agree(postgres.owner_url)


def test_nothing_of_a_caller_is_left_on_a_backend_for_the_next_client(postgres: TestDatabase) -> None:
    project = Project(postgres)
    project.snapshot({"a.md": "# A\n\nThe zebra sleeps.\n"})
    project.change({"path": "b.md", "content": "# B\n\nThe lion sleeps.\n"})
    project.found("zebra")
    slow = "SELECT set_config('statement_timeout', '20', true), pg_sleep(5)"
    with suppress(StoreUnavailable):
        project.querying.transact(lambda connection: connection.execute(slow))
    settings = "SELECT name, setting FROM pg_settings WHERE source = 'session' AND name <> 'application_name'"
    for url in (postgres.index_url, postgres.query_url):
        plans: dict[str, str] = {}
        with ExitStack() as open_transactions:
            backends = set()
            for _ in range(BACKENDS):  # each holds its backend, so that every one is looked at
                client = open_transactions.enter_context(connect(url))
                open_transactions.enter_context(client.transaction())
                backends.add(_backend(client))
                left = dict(client.execute(settings).fetchall())
                assert left.keys() <= {"client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings"}
                plans.update(client.execute("SELECT name, statement FROM pg_prepared_statements").fetchall())
                assert client.execute("SELECT current_setting('strata.principals', true)").fetchone() in (
                    (None,),
                    ("",),
                )
        assert len(backends) <= BACKENDS
        # The plans of searches stay: texts without a value of whoever searched.
        assert (url == postgres.query_url) == bool(plans)
        assert all(name.startswith("strata_") for name in plans)
        values = ("zebra", "'docs'", identity().tenant, *identity().principals)
        assert not [value for value in values for statement in plans.values() if value in statement]
    project.close()


def test_the_pooler_really_pools(postgres: TestDatabase) -> None:
    """Else nothing above would say anything: a statement prepared by name is lost when another backend comes."""
    with ExitStack() as clients:
        connections = [clients.enter_context(connect(postgres.index_url)) for _ in range(6)]
        assert len({_backend(each) for each in connections}) <= BACKENDS
        connections[0].execute("SET work_mem = '3MB'")
        assert connections[1].execute("SHOW work_mem").fetchone() == ("3MB",)
        careless = clients.enter_context(
            psycopg.connect(postgres.index_url, autocommit=True, prepare_threshold=0, application_name="careless")
        )
        with pytest.raises(psycopg.errors.Error):
            _change_backends(connections[2], careless)


def _change_backends(busy: Connection, careless: Connection) -> None:
    for _ in range(4):
        with busy.transaction():
            busy.execute("SELECT 1")
            careless.execute("SELECT 42")
        careless.execute("SELECT 42")


def _backend(connection: Connection) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])
