"""The Postgres adapters keep the promises of their ports."""

from __future__ import annotations

from tests.support.blob_cache_contract import BlobCacheContract
from tests.support.new_index_contract import NewIndexContract
from tests.support.session_store_contract import SessionStoreContract


class TestPostgresBlobCache(BlobCacheContract):
    pass


class TestPostgresSessionStore(SessionStoreContract, NewIndexContract):
    pass
