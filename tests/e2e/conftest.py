"""A whole local cloud for a module, its embedder `hashed`; a module that wants another one gives its own `cloud`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata_client.client import StrataClient
from strata_local.up import LocalCloud


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCloud(Path(folder), port=0, environment={"STRATA_EMBEDDER": "hashed"}) as started,
    ):
        yield started


@pytest.fixture
def client(cloud: LocalCloud) -> Iterator[StrataClient]:
    with StrataClient(cloud.api_url) as made:
        yield made
