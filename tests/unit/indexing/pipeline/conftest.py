"""The project that the tests of the pipeline index."""

from __future__ import annotations

import pytest

from tests.support.indexed_project import Project


@pytest.fixture
def project() -> Project:
    return Project()
