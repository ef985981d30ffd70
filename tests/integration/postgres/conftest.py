"""The adapters of Postgres on a new database; a module that wants another one gives its own `postgres` or `store`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.sessions import PostgresSessionStore
from tests.support.postgres import TestDatabase


@pytest.fixture
def database(postgres: TestDatabase) -> Iterator[Database]:
    database = Database(postgres.index_url)
    yield database
    database.close()


@pytest.fixture
def cache(database: Database) -> PostgresBlobCache:
    return PostgresBlobCache(database)


@pytest.fixture
def store(database: Database) -> PostgresSessionStore:
    return PostgresSessionStore(database)
