from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.indexing.docs.frontmatter import read_frontmatter
from strata.indexing.docs.markdown import plain
from strata.model.corpus import Chunk, Layer
from tests.support.parsing import assert_true_to_the_source, chunks_of, parsed, sections_of, uncovered_lines

D1, D3 = Layer.D1_DOCUMENT_CATALOG, Layer.D3_SECTION_INDEX


def catalogue(content: bytes | str, path: str = "docs/doc.md") -> Chunk:
    return chunks_of(path, content, D1)[0]


def sections(content: bytes | str, path: str = "docs/doc.md") -> list[Chunk]:
    return chunks_of(path, content, D3)


# --- headings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("# A\n\n## B\ntext\n", ["A", "A > B"], id="nested"),
        pytest.param("# A\r\n\r\n## B\r\ntext\r\n", ["A", "A > B"], id="CRLF"),
        pytest.param("# A\r\r## B\rtext\r", ["A", "A > B"], id="CR"),
        pytest.param("\ufeff# A\n\n## B\ntext\n", ["A", "A > B"], id="a byte-order mark"),
        pytest.param("A\n===\ntext\n\nB\n---\nmore\n", ["A", "A > B"], id="setext"),
        pytest.param("## My Section ##\nx", ["My Section"], id="closing hashes"),
        pytest.param("# C#\nx\n", ["C#"], id="a hash that belongs to the title"),
        pytest.param("#hashtag\n\n# A\nx\n", ["", "A"], id="no blank after the hash"),
        pytest.param("# `run` and [link](x.md) *now*\nx\n", ["run and link now"], id="inline markup"),
        pytest.param("# A {#anchor}\nx\n", ["A"], id="an anchor"),
        pytest.param("# A\nx\n### C\ny\n## B\nz\n# D\nw\n", ["A", "A > C", "A > B", "D"], id="levels that jump"),
        pytest.param("intro\n\n# A\nx\n", ["", "A"], id="text above the first heading"),
        pytest.param("just text, no heading\n", [""], id="no heading"),
        pytest.param("#\nx\n\n# A\ny\n", ["", "A"], id="an empty heading"),
        pytest.param("# A\n\n```bash\n# not a heading\n```\n\n## B\nt\n", ["A", "A > B"], id="a hash in a fence"),
        pytest.param("# A\n\n~~~\n```\n# no\n~~~\n\n## B\nx\n", ["A", "A > B"], id="a fence in a fence"),
        pytest.param("# A\n\n```\n# never closed\n\n## nor this\n", ["A"], id="a fence without an end"),
        pytest.param("# A\n* 1\n\n    ```\n    # no\n    ```\n\n## B\nx\n", ["A", "A > B"], id="a fence in a list"),
        pytest.param("# A\n\n    # indented code\n\n## B\nx\n", ["A", "A > B"], id="indented code"),
        pytest.param("# A\n\n<!--\n# hidden\n\n## also\n-->\n\n## B\nx\n", ["A", "A > B"], id="an HTML comment"),
        pytest.param("# A\n\n> # quoted\n\n- # listed\n\n## B\nx\n", ["A", "A > B"], id="in a quote or a list"),
        pytest.param("# A\n\n| a |\n|---|\n| # b |\n\n## B\nx\n", ["A", "A > B"], id="in a table"),
    ],
)  # fmt: skip
def test_sections_follow_the_headings(content: str, expected: list[str]) -> None:
    assert sections_of(content) == expected
    assert uncovered_lines("doc.md", content, sections(content)) == []


def test_line_ends_do_not_change_the_sections() -> None:
    text = "---\nid: x\n---\n# A\n\nSome text.\n\n## B\n\n- one\n- two\n"
    unix, windows = sections(text), sections(text.replace("\n", "\r\n"))
    assert [(c.title, c.span, c.content) for c in unix] == [(c.title, c.span, c.content) for c in windows]
    assert not any("\r" in chunk.title + chunk.content for chunk in windows)


def test_a_byte_order_mark_hides_neither_frontmatter_nor_heading() -> None:
    content = b"\xef\xbb\xbf---\nid: x\nowner: Bar\n---\n# First\n\n## Second\ntext\n"
    assert sections_of(content) == ["First", "First > Second"]
    assert {name: catalogue(content).metadata[name] for name in ("doc_id", "owner")} == {"doc_id": "x", "owner": "Bar"}
    assert not any("\ufeff" in chunk.embedded_text for chunk in parsed("doc.md", content).chunks)


def test_a_bare_heading_reads_on_into_its_first_subsection() -> None:
    first, second = sections("# First\n\n## Second\ntext\nmore\n\nnot this\n")
    assert (first.title, first.content) == ("First", "# First\n\n## Second\ntext\nmore")
    assert (second.title, second.content) == ("Second", "## Second\ntext\nmore\n\nnot this")


def test_an_empty_section_stays_in_the_catalogue_and_is_never_blank() -> None:
    content = "# A\n\n## B\n\n\n\n## C\ntext\n"
    assert [(chunk.title, chunk.content) for chunk in sections(content)] == [
        ("A", "# A\n\n## B\n\n\n\n## C\ntext"),
        ("B", "## B"),
        ("C", "## C\ntext"),
    ]
    assert "- B" in catalogue(content).content
    assert "- C" in catalogue(content).content


def test_equal_sections_are_two_chunks() -> None:
    content = "## Usage\nsame\n\n## Usage\nsame\n"
    both = [chunk for path in ("a.md", "b.md") for chunk in sections(content, path)]
    assert len({(chunk.path, chunk.layer, chunk.ordinal) for chunk in both}) == 4
    assert [(chunk.span.start, chunk.span.end) for chunk in both] == [(1, 2), (4, 5)] * 2


def test_a_file_of_many_sections_has_a_chunk_for_each() -> None:
    content = "".join(f"## Section {number}\n\nBody {number}.\n\n" for number in range(250))
    assert len(sections(content)) == 250


def test_the_context_names_path_and_sections() -> None:
    assert sections("---\ntitle: Guide\n---\n# A\n\n## B\nx\n")[-1].context == "docs/doc.md\nGuide > A > B"
    assert sections("---\ntitle: A\n---\n# A\n\n## B\nx\n")[-1].context == "docs/doc.md\nA > B"


# --- frontmatter ---------------------------------------------------------------------------------------------------


def test_typed_fields_are_kept_and_the_rest_left_out() -> None:
    chunk = catalogue(
        "---\nid: 7\ntitle: Guide\ndoc_type: how-to\ndomain: billing\nowner: team\nstatus: draft\n"
        "tags: [a, 2, 2026-01-02]\nentities: Order, Invoice\nrelated_docs:\n  - a.md\nrelated_code: src/x.py\n"
        "other: {a: b}\n---\n# Title\n\nSummary.\n"
    )
    assert chunk.metadata == {
        "artifact_type": "markdown",
        "doc_id": "7",
        "doc_type": "how-to",
        "domain": "billing",
        "owner": "team",
        "status": "draft",
        "tags": ["a", "2", "2026-01-02"],
        "entities": ["Order", "Invoice"],
        "related_docs": ["a.md"],
        "related_code": ["src/x.py"],
    }
    assert chunk.title == "Guide"
    assert "Tags: a, 2, 2026-01-02" in chunk.content


@pytest.mark.parametrize(
    "field", ["id: [a]", "title: {a: b}", "tags: {a: b}", "tags: 5", "owner: null", "tags: [[a], {b: c}]", "owner: ''"]
)
def test_a_field_of_another_shape_is_left_out(field: str) -> None:
    assert read_frontmatter(["---", field, "---"]).fields == {}


def test_unsound_yaml_is_named_and_kept_out_of_the_body() -> None:
    content = "---\ntitle: Part 1: Intro\nowner: team\n---\n# Body\nx\n"
    file = parsed("doc.md", content)
    assert [chunk.content for chunk in file.chunks if chunk.layer is D3] == ["# Body\nx"]
    assert catalogue(content).metadata["frontmatter_error"].startswith("line 2:")
    assert file.notes[0].line == 2
    assert "Part 1" not in catalogue(content).content


def test_only_the_first_block_is_frontmatter() -> None:
    content = "---\ntitle: A\n---\n\n# A\ntext\n\n---\n\n- item\n  - colon inside: yes\n\n---\nend\n"
    (section,) = sections(content)
    assert (section.span.start, section.span.end) == (5, 14)
    assert uncovered_lines("doc.md", content, [section]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("content", "line_count"),
    [
        pytest.param("---\na: b\n---\nx", 3, id="a block"),
        pytest.param("---\na: b\n...\nx", 3, id="dots"),
        pytest.param("---  \na: b\n--- \nx", 3, id="blanks behind the fences"),
        pytest.param("---\n---\nx", 2, id="empty"),
        pytest.param("---\n# only a comment\n---\nx", 0, id="a rule, a heading and a rule"),
        pytest.param("---\n\nSome text.\n\n---\nx", 0, id="a rule, text and a rule"),
        pytest.param("---\n- a\n---\nx", 0, id="a list between rules"),
        pytest.param("---\na: b\nx", 0, id="no end"),
        pytest.param("\n---\na: b\n---\nx", 0, id="not at the start"),
        pytest.param("----\na: b\n----\nx", 0, id="four dashes"),
        pytest.param("---\na: &x [1]\nb: *x\n---\nx", 4, id="an alias: unreadable, but frontmatter"),
        pytest.param("---\na: !!python/object/apply:os.system [ls]\n---\nx", 3, id="a tag that runs code"),
        pytest.param("---\na: 2026-99-99\n---\nx", 3, id="no date"),
        pytest.param("---\na: " + "[" * 5_000 + "\n---\nx", 3, id="nested without end"),
        pytest.param("---\na: " + "9" * 5_000 + "\n---\nx", 3, id="a huge number"),
        pytest.param("---\na: \"\\ud83d\\0\"\n---\nx", 3, id="half a character"),
        pytest.param("---\nb: " + "a" * 70_000 + "\n---\nx", 3, id="too long"),
    ],
)  # fmt: skip
def test_what_counts_as_frontmatter(content: str, line_count: int) -> None:
    assert read_frontmatter(content.split("\n")).line_count == line_count
    file = parsed("doc.md", content)
    assert_true_to_the_source("doc.md", content, file.chunks)
    assert uncovered_lines("doc.md", content, file.chunks) == list(range(1, line_count + 1)) or line_count == 0


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param("2026-99-99", "no sound YAML", id="a date that is none"),
        pytest.param("9" * 5_000, "no sound YAML", id="a number of too many digits"),
        pytest.param("[" * 3_000 + "]" * 3_000, "it is nested too deeply", id="nested without end"),
    ],
)
def test_what_yaml_cannot_hold_is_unreadable_in_a_sentence_for_authors(value: str, reason: str) -> None:
    fault = read_frontmatter(["---", f"a: {value}", "---"]).fault
    assert (fault and fault.reason) == reason


# --- the catalogue -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "summary"),
    [
        pytest.param("# T\n\nFirst\nparagraph.\n\nSecond.\n", "First paragraph.", id="the first paragraph"),
        pytest.param("# T\n\n[![b](c)](d)\n![e](f)\n\nReal *text*.\n", "Real text.", id="after badges"),
        pytest.param("# T\n\n<p>html</p>\n\n- list\n\n> quote\n\nReal.\n", "Real.", id="after other blocks"),
        pytest.param("# T\n\n" + "words " * 200 + "\n", "words " * 100 + "…", id="cut at 600 characters"),
    ],
)
def test_the_summary_is_the_first_real_paragraph(content: str, summary: str) -> None:
    assert catalogue(content).content.split("\n")[:2] == ["T", summary]


def test_the_outline_is_indented_and_never_lost() -> None:
    content = "# T\n\nIntro.\n\n" + "".join(f"## Section {n}\n\nx\n\n### Part {n}\n\ny\n\n" for n in range(200))
    chunks = chunks_of("docs/doc.md", content, D1)
    rows = "\n".join(chunk.content for chunk in chunks).split("\n")
    assert [row for row in rows if row.startswith(" ")] == [
        row for n in range(200) for row in (f"  - Section {n}", f"    - Part {n}")
    ]
    assert {(chunk.span.start, chunk.span.end) for chunk in chunks} == {(1, 3)}


def test_a_file_without_a_title_has_its_name() -> None:
    assert catalogue("just text, no heading\n").title == "doc.md"


def test_inline_markup_is_read_as_text() -> None:
    assert plain("**Bold** `code` ![img](x) a\\_b &amp; <b>") == "Bold code img a_b & "[:-1]


# --- cuts ----------------------------------------------------------------------------------------------------------

TABLE = "| code | meaning | fix |\n|---|---|---|\n" + "".join(
    f"| E-{n} | meaning number {n} | do the fix {n} |\n" for n in range(400)
)


def test_every_chunk_of_a_long_table_knows_its_header() -> None:
    content = f"# Codes\n\n{TABLE}\nAfter the table.\n"
    chunks = sections(content)
    assert len(chunks) > 10
    for chunk in chunks[1:-1]:
        assert chunk.context.endswith("\n| code | meaning | fix |")
        assert chunk.metadata["table_header"] == "| code | meaning | fix |"
        assert "| code |" not in chunk.content
    assert "table_header" not in chunks[0].metadata
    assert "|---|" in chunks[0].content
    for chunk in chunks:
        assert all(row.count("|") in (0, 4) for row in chunk.content.split("\n"))
    assert uncovered_lines("docs/doc.md", content, chunks) == []
    rows = [row for chunk in chunks for row in chunk.content.split("\n") if row.startswith("| E-")]
    assert len(rows) == len(set(rows)) == 400


def test_a_header_wider_than_a_chunk_still_leaves_room_for_rows() -> None:
    content = "|" + " name |" * 300 + "\n|" + "-|" * 300 + "\n" + ("|" + " v |" * 300 + "\n") * 3
    file = parsed("doc.md", content)
    assert_true_to_the_source("doc.md", content, file.chunks)
    assert uncovered_lines("doc.md", content, file.chunks) == []


def test_a_fence_that_fits_is_not_cut() -> None:
    fence = "```python\n" + "".join(f"value_{n} = {n}\n" for n in range(40)) + "```"
    content = "# A\n\n" + "Some words of text here.\n" * 30 + f"\n{fence}\n\n" + "More words of text.\n" * 30
    assert any(fence in chunk.content for chunk in sections(content))


def test_a_list_is_cut_between_items() -> None:
    content = "# A\n\n" + "".join(f"- item {n} with some words\n  that go on in a second line\n" for n in range(60))
    for chunk in sections(content)[1:]:
        assert any(line.startswith("- ") for line in chunk.content.split("\n")[:2])


def test_prose_is_cut_after_a_sentence_and_overlaps() -> None:
    lines = [f"This is sentence {n} and it is\ncontinued on a second line." for n in range(60)]
    content = "# A\n\n" + "\n".join(lines) + "\n"
    chunks = sections(content)
    assert all(chunk.content.endswith(".") for chunk in chunks)
    for before, after in pairwise(chunks):
        assert after.span.start <= before.span.end < after.span.end


@pytest.mark.parametrize("overlap", [0, 50, 400])
def test_an_overlap_of_any_size_gets_on(overlap: int) -> None:
    content = "# A\n\n" + "".join(f"Line {n} of the text.\n" + "\n" * (n % 3) for n in range(300))
    file = parsed("doc.md", content, overlap=overlap)
    assert_true_to_the_source("doc.md", content, file.chunks)
    assert uncovered_lines("doc.md", content, file.chunks) == []
    ends = [chunk.span.end for chunk in file.chunks if chunk.layer is D3]
    assert ends == sorted(set(ends))


# --- whatever comes ------------------------------------------------------------------------------------------------

BLOCKS = st.sampled_from([
    "# A", "## B ##", "### C", "Setext\n===", "text", "two\nlines.", "- a\n- b", "* a\n\n  more",
    "1. x\n   ```\n   y\n   ```", "```\n# f\n\ng\n```", "~~~\nopen", "    code", "> q\n> # h",
    "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |", "---", "***", "<!-- c -->", "<div>\n\n</div>", "[r]: x", "", "\t",
    "\u2028x", "\x0c", "🤣🤣", "\0", "a" * 300, "слово " * 60, "---\na: b\n---", "#", "\\# x",
])  # fmt: skip
DOCUMENTS = st.builds(
    lambda blocks, gaps, end: "".join(block + "\n" * gap for block, gap in zip(blocks, gaps, strict=False)) + end,
    st.lists(BLOCKS, max_size=12),
    st.lists(st.integers(1, 3), min_size=12, max_size=12),
    st.sampled_from(["", "x"]),
)


@given(DOCUMENTS, st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from([12, 40, 500]))
def test_every_line_of_any_document_is_in_a_true_chunk(text: str, line_end: str, chunk_tokens: int) -> None:
    content = text.replace("\n", line_end)
    file = parsed("d/doc.md", content, chunk_tokens=chunk_tokens)
    assert_true_to_the_source("d/doc.md", content, file.chunks)
    lines = read_frontmatter(text.replace("\0", "").split("\n")).line_count
    assert all(line <= lines for line in uncovered_lines("d/doc.md", content, file.chunks))


@given(st.text(max_size=200))
def test_any_text_is_markdown(text: str) -> None:
    content = text.encode("utf-8", "replace")
    assert_true_to_the_source("doc.md", content, parsed("doc.md", content).chunks)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("# a\n" * 200_000, id="headings"),
        pytest.param("- a\n" * 200_000, id="items"),
        pytest.param("| a | b |\n|---|---|\n| 1 | 2 |\n\n" * 30_000, id="tables"),
        pytest.param("|a" * 200_000 + "|\n" + "|-" * 200_000 + "|\n| 1 |\n", id="columns"),
        pytest.param("```\nx\n```\n" * 60_000, id="fences"),
        pytest.param("x" + " " * 900_000 + "y\n", id="blanks inside a line"),
        pytest.param("# a" + " " * 900_000 + "b\n", id="blanks inside a heading"),
        pytest.param("# " + "[" * 50_000 + "\n\n" + "*a **b" * 100_000 + "\n", id="markup without end"),
        pytest.param("---\na: &a {x: 1}\n" + "a: &a {<<: [*a, *a]}\n" * 40 + "---\nx\n", id="YAML that doubles"),
    ],
)
def test_a_hostile_file_is_read_in_time(content: str) -> None:
    started = time.monotonic()
    file = parsed("doc.md", content)
    assert time.monotonic() - started < 20
    assert_true_to_the_source("doc.md", content, file.chunks)
