"""Fixtures that every test may ask for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, not whether the rule holds. In CI a run repeats itself.
settings.register_profile(
    "strata", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("strata")

# A shell without job control lets what it starts in the background ignore Ctrl-C, and all that this starts would, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("tests.support")

from tests.support.pooler import Pooler, transaction_pooler  # noqa: E402
from tests.support.postgres import PostgresServer, TestDatabase  # noqa: E402
from tests.support.postgres import postgres_server as _postgres_server  # noqa: E402


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for the run (for each worker under xdist); started when the first test asks for it."""
    with _postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def pooler(postgres_server: PostgresServer) -> Iterator[Pooler | None]:
    """With `STRATA_TEST_POOLER`, PgBouncer before that server: every test that can do so goes through it."""
    if "STRATA_TEST_POOLER" in os.environ:
        with transaction_pooler(postgres_server.url) as started:
            yield started
    else:
        yield None


@pytest.fixture
def postgres(postgres_server: PostgresServer, pooler: Pooler | None) -> Iterator[TestDatabase]:
    """A migrated database without rows, for this test alone."""
    with postgres_server.emptied_database() as database:
        yield pooler.pooled(database) if pooler else database


@pytest.fixture
def fresh_postgres(postgres_server: PostgresServer, pooler: Pooler | None) -> Iterator[TestDatabase]:
    """A new, migrated database, for a test that changes the schema or looks at the planner's statistics."""
    with postgres_server.fresh_database() as database:
        yield pooler.pooled(database) if pooler else database


@pytest.fixture(scope="module")
def module_postgres(postgres_server: PostgresServer, pooler: Pooler | None) -> Iterator[TestDatabase]:
    """A fresh, migrated database for the tests of one module, which share its rows."""
    with postgres_server.fresh_database() as database:
        yield pooler.pooled(database) if pooler else database
