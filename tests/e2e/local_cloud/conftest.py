"""One local cloud with small real functions for all the tests here."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from strata_local.functions import Limits
from strata_local.up import LocalCloud
from tests.support.local_stack_template import TEMPLATE


@pytest.fixture(scope="package")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="package")
def records(folder: Path) -> Path:
    path = folder / "records"
    path.mkdir()
    return path


@pytest.fixture(scope="package")
def cloud(folder: Path, records: Path) -> Iterator[LocalCloud]:
    started = LocalCloud(
        folder / "data",
        port=0,
        template=TEMPLATE,
        environment={"RECORD_FOLDER": str(records)},
        limits=Limits(max_processes=2, retry_delays_s=(0.05, 0.1), retry_delay_after_death_s=0.2),
    )
    with started:
        yield started


@pytest.fixture
def http(cloud: LocalCloud) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=cloud.api_url, timeout=30, trust_env=False) as client:
        yield client
