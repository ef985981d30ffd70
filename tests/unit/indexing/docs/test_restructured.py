from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.model.corpus import Chunk, Layer
from tests.support.parsing import assert_true_to_the_source, chunks_of, parsed, sections_of, uncovered_lines

GUIDE = """:Owner: team-a
:Status: draft

=====
Guide
=====

What it is for::

    # not
    ========
    a heading

Install
-------

* one
* two
  goes on

.. code-block:: sh

    make
    ----

Options
~~~~~~~

``--port``
    Where it listens. Ports must be free.

:timeout: at most 30 s

====  =======
code  meaning
====  =======
E1    disk

E2    net
====  =======

.. note:: Never delete it.

Use
---
Text.
"""


def of(layer: Layer, content: str = GUIDE) -> list[Chunk]:
    return chunks_of("docs/guide.rst", content, layer)


def test_sections_follow_the_adornments() -> None:
    assert sections_of(GUIDE, "docs/guide.rst") == [
        "",
        "Guide",
        "Guide > Install",
        "Guide > Install > Options",
        "Guide > Use",
    ]


def test_the_catalogue_holds_title_fields_summary_and_outline() -> None:
    (entry,) = of(Layer.D1_DOCUMENT_CATALOG)
    assert entry.content == "Guide\nOwner: team-a\nStatus: draft\nWhat it is for::\n  - Install\n    - Options\n  - Use"
    assert entry.metadata["artifact_type"] == "restructuredtext"
    assert entry.metadata["owner"] == "team-a"


def test_items_fields_and_definitions_are_facts() -> None:
    facts = of(Layer.D2_FACT_INDEX)
    assert [(chunk.span.start, chunk.span.end, chunk.content) for chunk in facts[2:]] == [
        (17, 17, "one"),
        (18, 19, "two goes on"),
        (29, 30, "--port: Where it listens. Ports must be free."),
        (32, 32, "timeout: at most 30 s"),
    ]


def test_rules_are_found_also_in_notes() -> None:
    assert [(chunk.span.start, chunk.content) for chunk in of(Layer.D4_POLICY_INDEX)] == [
        (29, "--port: Where it listens. Ports must be free."),
        (32, "timeout: at most 30 s"),
        (42, "Never delete it."),
    ]


@pytest.mark.parametrize(
    ("content", "sections"),
    [
        pytest.param("A\n=\n\nB\n-\n\ntext\n", [""], id="an underline of one mark is none"),
        pytest.param("A long title\n====\n\nx\n", ["A long title"], id="an underline that is too short"),
        pytest.param("Title\n=====\n\ntext\n\n----\n\nmore\n", ["Title"], id="a transition is no heading"),
        pytest.param("para\ntext\n====\n", [""], id="a paragraph of two lines is no title"),
        pytest.param("just text, no heading\n", [""], id="no heading"),
        pytest.param("Привет\n======\n\nтекст\n", ["Привет"], id="Russian"),
        pytest.param("A b\r\n===\r\n\r\nx\r\n", ["A b"], id="CRLF"),
        pytest.param("\ufeffA b\n===\n\nx\n", ["A b"], id="a byte-order mark"),
        pytest.param(
            "One\n===\n\nTwo\n---\n\nThree\n=====\n\nx\n", ["One", "One > Two", "Three"], id="levels by style"
        ),
    ],
)
def test_what_is_a_heading(content: str, sections: list[str]) -> None:
    assert sections_of(content, "a.rst") == sections


def test_a_literal_block_that_fits_is_not_cut() -> None:
    block = "".join(f"    line {number} of the block\n\n" for number in range(30))
    content = (
        "Title\n=====\n\n" + "Some words here. " * 60 + "\n\nCode::\n\n" + block + "\n" + "More words. " * 60 + "\n"
    )
    chunks = chunks_of("a.rst", content, Layer.D3_SECTION_INDEX, chunk_tokens=300)
    assert sum("of the block" in chunk.content for chunk in chunks) == 1


@given(st.lists(st.sampled_from(GUIDE.split("\n")), max_size=40))
def test_every_line_of_any_document_is_in_a_true_chunk(lines: list[str]) -> None:
    content = "\n".join(lines)
    chunks = parsed("a.rst", content).chunks
    assert_true_to_the_source("a.rst", content, chunks)
    assert uncovered_lines("a.rst", content, chunks) == []


@given(st.text())
def test_any_text_is_restructured(text: str) -> None:
    chunks = parsed("a.rst", text.encode("utf-8", "replace")).chunks
    assert_true_to_the_source("a.rst", text.encode("utf-8", "replace"), chunks)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("====  ====\na\n" * 15_000, id="tables without an end"),
        pytest.param("a\n=\n\n" * 12_000, id="short underlines"),
        pytest.param("abc\n===\n" * 19_000, id="headings"),
        pytest.param("*" * 200_000, id="stars"),
        pytest.param("`a <" * 50_000, id="half links"),
        pytest.param(":a:`" * 50_000, id="half roles"),
        pytest.param("- x\n" * 39_000, id="items"),
        pytest.param("x::\n\n y\n\n" * 9_000, id="literal blocks"),
    ],
)
def test_a_hostile_file_is_read_in_time(content: str) -> None:
    start = time.process_time()
    parsed("a.rst", content)
    assert time.process_time() - start < 8
