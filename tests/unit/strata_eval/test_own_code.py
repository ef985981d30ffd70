"""A judged set made from docstrings: the question never stands in the text that is searched."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import ConfigurationError
from strata_eval.own_code import from_python_sources

SOURCE = '''
"""A module's own docstring asks for nothing."""

class Store:
    """Keeps rows until they are asked for. More is said here."""

    def put(self, row):
        """Write one row and
        return its number.

        Raises nothing.
        """
        self.rows.append(row)
        return len(self.rows)

    def size(self):
        """How many."""
        return len(self.rows)

async def undocumented():
    return 1
'''


def test_each_documented_definition_is_asked_for_by_its_first_sentence(tmp_path: Path) -> None:
    (tmp_path / "store.py").write_text(SOURCE)
    judged = from_python_sources(tmp_path)
    asked = {query.query_id: query.text for query in judged.queries}
    assert asked == {
        "store.py::Store": "Keeps rows until they are asked for",
        "store.py::Store.put": "Write one row and return its number",
    }
    texts = {document.path: document.text for document in judged.documents}
    assert "self.rows.append(row)" in texts["store.py::Store.put"]
    assert "Write one row" not in texts["store.py::Store.put"]
    assert judged.relevant["store.py::Store.put"] == {"store.py::Store.put"}


def test_a_folder_without_docstrings_is_no_set(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("x = 1\n")
    with pytest.raises(ConfigurationError, match="no queries"):
        from_python_sources(tmp_path)


def test_this_project_is_a_set() -> None:
    judged = from_python_sources(Path(__file__).resolve().parents[3] / "layers" / "common" / "strata")
    assert len(judged.queries) > 100
