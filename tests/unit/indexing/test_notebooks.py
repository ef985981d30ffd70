from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import FileUnreadable
from strata.indexing.reading import read_text
from strata.model.corpus import Layer
from tests.support.parsing import assert_true_to_the_source, chunks_of, parsed, sections_of, uncovered_lines

PNG = "iVBORw0KGgo" + "A" * 5_000


def notebook(*cells: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"cells": list(cells), "nbformat": 4, "metadata": {}} | more).encode()


def markdown(source: str | list[str], **more: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": source, **more}


def code(source: str | list[str], **more: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": [], **more}


BOOK = notebook(
    markdown(["# Prices\n", "\n", "How they are made.\n"]),
    code("import shop\nshop.prices()", outputs=[{"data": {"image/png": PNG, "text/plain": "the output"}}]),
    markdown(
        f"## Picture\n![p](attachment:p.png)\n<img src='data:image/png;base64,{PNG}'>\nAfter it.",
        attachments={"p.png": {"image/png": PNG}},
    ),
    {"cell_type": "raw", "source": "Raw words."},
    code(""),
)


def test_cells_are_read_in_order_without_outputs() -> None:
    assert read_text("a.ipynb", BOOK) == (
        "# Prices\n\nHow they are made.\n\n```python\nimport shop\nshop.prices()\n```\n\n"
        "## Picture\n![p](attachment:p.png)\n<img src=''>\nAfter it.\n\nRaw words.\n"
    )


def test_a_notebook_has_sections_and_no_base64() -> None:
    chunks = parsed("book/a.ipynb", BOOK).chunks
    assert_true_to_the_source("book/a.ipynb", BOOK, chunks)
    assert sections_of(BOOK, "a.ipynb") == ["Prices", "Prices > Picture"]
    assert {chunk.metadata["artifact_type"] for chunk in chunks} == {"notebook"}
    assert not any("AAAAAAAA" in chunk.embedded_text or "the output" in chunk.embedded_text for chunk in chunks)


def test_code_that_holds_a_fence_stays_in_its_own() -> None:
    text = read_text("a.ipynb", notebook(code('x = """\n```\n# no heading\n```\n"""'), markdown("# Next\n\nx")))
    assert sections_of(notebook(code('x = """\n```\n# no heading\n```\n"""'), markdown("# Next\n\nx")), "a.ipynb") == [
        "",
        "Next",
    ]
    assert text.startswith("````python\n")


def test_the_language_is_the_notebooks_own() -> None:
    text = read_text("a.ipynb", notebook(code("x <- 1"), metadata={"language_info": {"name": "R"}}))
    assert text == "```R\nx <- 1\n```\n"


def test_format_three_is_read() -> None:
    old = {
        "worksheets": [
            {"cells": [{"cell_type": "heading", "level": 2, "source": "Old"}, {"cell_type": "code", "input": "1"}]}
        ]
    }
    assert read_text("a.ipynb", json.dumps(old).encode()) == "## Old\n\n```python\n1\n```\n"


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"{}", b'{"cells": 3}', b"[" * 100_000, b"not json"],
    ids=["cut short", "a list", "no cells", "cells of another kind", "nested", "text"],
)
def test_what_is_no_notebook_fails_alone(content: bytes) -> None:
    with pytest.raises(FileUnreadable, match="no notebook"):
        read_text("a.ipynb", content)


@pytest.mark.parametrize("cell", [None, 3, {}, {"cell_type": "code"}, {"cell_type": "markdown", "source": [1, None]}])
def test_a_broken_cell_is_left_out(cell: Any) -> None:
    assert read_text("a.ipynb", notebook(cell, markdown("# A"))) == "# A\n"


def test_a_notebook_without_text_has_no_chunk() -> None:
    assert chunks_of("a.ipynb", notebook(code("")), Layer.D3_SECTION_INDEX) == []


KEYS = ["cells", "cell_type", "source", "input", "level", "metadata", "language_info", "name", "worksheets", "outputs"]
VALUES = [
    "code", "markdown", "raw", "heading", "# H\n", "```\nx", "x = 1\r\ny", "\ud800", "\x00", "\u2028", "", "python", 3,
    -1, None, True, 1.5,
]  # fmt: skip


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)


ANYTHING = st.recursive(st.sampled_from(VALUES), nested, max_leaves=30)


@pytest.mark.parametrize("cells", [3, True, "x", {"a": 1}, None])
def test_a_broken_sheet_is_left_out(cells: Any) -> None:
    file = json.dumps({"worksheets": [{"cells": cells}, {"cells": [{"cell_type": "markdown", "source": "# H\nx"}]}]})
    assert sections_of(file, "a.ipynb") == ["H"]


@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=4))
def test_any_json_is_a_notebook_with_true_chunks_or_fails_alone(content: dict[str, Any]) -> None:
    file = json.dumps(content).encode()
    try:
        read_text("a.ipynb", file)
    except FileUnreadable:
        return
    chunks = parsed("a.ipynb", file).chunks
    assert_true_to_the_source("a.ipynb", file, chunks)
    assert uncovered_lines("a.ipynb", file, chunks) == []
    assert all(not 0xD800 <= ord(character) <= 0xDFFF for chunk in chunks for character in chunk.content)


CELLS = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown", "raw", "heading", "none"])},
    optional={"source": ANYTHING, "input": ANYTHING, "level": ANYTHING, "outputs": ANYTHING},
)


@given(st.lists(CELLS | ANYTHING, max_size=8), ANYTHING)
def test_any_cells_have_true_chunks(cells: list[Any], metadata: object) -> None:
    file = json.dumps({"cells": cells, "metadata": metadata}).encode()
    chunks = parsed("a.ipynb", file).chunks
    assert_true_to_the_source("a.ipynb", file, chunks)
    assert uncovered_lines("a.ipynb", file, chunks) == []
    assert all(not 0xD800 <= ord(character) <= 0xDFFF for chunk in chunks for character in chunk.content)
