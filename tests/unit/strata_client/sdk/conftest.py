"""The SDK against an API on loopback; what it would wait is noted, not waited."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strata_client import (
    StrataClient,
)
from tests.support.fake_api import (
    FakeApi,
    behave_well,
    fake_api,
)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with fake_api() as api:
        behave_well(api)
        yield api


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def client(api: FakeApi, waits: list[float]) -> Iterator[StrataClient]:
    with StrataClient(api.url, "secret", sleep=waits.append) as client:
        yield client
