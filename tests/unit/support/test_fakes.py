"""The in-memory fakes keep the promises of their ports."""

from __future__ import annotations

import pytest

from tests.support.blob_cache_contract import BlobCacheContract
from tests.support.fakes import FakeBlobCache, FakeSessionStore
from tests.support.new_index_contract import NewIndexContract
from tests.support.session_store_contract import SessionStoreContract


class TestFakeBlobCache(BlobCacheContract):
    @pytest.fixture
    def cache(self) -> FakeBlobCache:
        return FakeBlobCache()


class TestFakeSessionStore(SessionStoreContract, NewIndexContract):
    @pytest.fixture
    def cache(self) -> FakeBlobCache:
        return FakeBlobCache()

    @pytest.fixture
    def store(self, cache: FakeBlobCache) -> FakeSessionStore:
        return FakeSessionStore(cache)
