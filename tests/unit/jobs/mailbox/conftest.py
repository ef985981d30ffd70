"""An office for each test."""

from __future__ import annotations

import pytest

from tests.support.office import Office


@pytest.fixture
def office() -> Office:
    return Office()
