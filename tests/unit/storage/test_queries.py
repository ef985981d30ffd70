from __future__ import annotations

from importlib import resources

import pytest

from strata.storage.postgres.queries import parsed, queries

MODULES = sorted(
    file.name.removesuffix(".sql")
    for file in resources.files("strata.storage.postgres").joinpath("sql").iterdir()
    if file.name.endswith(".sql")
)


@pytest.mark.parametrize("module", MODULES)
def test_every_file_of_statements_can_be_read(module: str) -> None:
    found = queries(module)
    assert found
    for statement in found.values():
        lines = [line for line in statement.decode().splitlines() if not line.startswith("--")]
        assert ";" not in "".join(lines), "one name, one statement"


def test_a_name_stands_once() -> None:
    with pytest.raises(ValueError, match="one"):
        parsed("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;\n")


def test_a_statement_needs_a_name() -> None:
    with pytest.raises(ValueError, match="before the first"):
        parsed("SELECT 1;\n-- name: one\nSELECT 1;\n")


def test_comments_may_stand_before_the_first_name() -> None:
    assert dict(parsed("-- About this file.\n\n-- name: one\nSELECT 1;")) == {"one": b"SELECT 1"}
