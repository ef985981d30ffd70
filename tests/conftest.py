"""Fixtures that every test may ask for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, not whether the rule holds. In CI a run repeats itself.
settings.register_profile(
    "strata", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("strata")

pytest.register_assert_rewrite("tests.support")

from tests.support.postgres import PostgresServer, TestDatabase  # noqa: E402
from tests.support.postgres import postgres_server as _postgres_server  # noqa: E402


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for the run (for each worker under xdist); started when the first test asks for it."""
    with _postgres_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[TestDatabase]:
    """A migrated database without rows, for this test alone."""
    with postgres_server.emptied_database() as database:
        yield database


@pytest.fixture
def fresh_postgres(postgres_server: PostgresServer) -> Iterator[TestDatabase]:
    """A new, migrated database, for a test that changes the schema or looks at the planner's statistics."""
    with postgres_server.fresh_database() as database:
        yield database


@pytest.fixture(scope="module")
def module_postgres(postgres_server: PostgresServer) -> Iterator[TestDatabase]:
    """A fresh, migrated database for the tests of one module, which share its rows."""
    with postgres_server.fresh_database() as database:
        yield database
