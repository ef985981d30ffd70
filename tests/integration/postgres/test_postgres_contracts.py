"""The Postgres adapters keep the promises of their ports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.sessions import PostgresSessionStore
from tests.support.blob_cache_contract import BlobCacheContract
from tests.support.new_index_contract import NewIndexContract
from tests.support.postgres import TestDatabase
from tests.support.session_store_contract import SessionStoreContract


@pytest.fixture
def database(postgres: TestDatabase) -> Iterator[Database]:
    database = Database(postgres.index_url)
    yield database
    database.close()


class TestPostgresBlobCache(BlobCacheContract):
    @pytest.fixture
    def cache(self, database: Database) -> PostgresBlobCache:
        return PostgresBlobCache(database)


class TestPostgresSessionStore(SessionStoreContract, NewIndexContract):
    @pytest.fixture
    def cache(self, database: Database) -> PostgresBlobCache:
        return PostgresBlobCache(database)

    @pytest.fixture
    def store(self, database: Database) -> PostgresSessionStore:
        return PostgresSessionStore(database)
