from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres import TestDatabase
from tests.support.search_rows import SearchRows


@pytest.fixture
def rows(postgres: TestDatabase) -> Iterator[SearchRows]:
    """An empty database to fill and search."""
    rows = SearchRows(postgres)
    yield rows
    rows.close()
