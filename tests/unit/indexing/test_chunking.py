from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.indexing.chunking.chunker import Chunker
from strata.model.corpus import Layer
from tests.support.parsing import assert_true_to_the_source, chunks_of, parsed, uncovered_lines

D3 = Layer.D3_SECTION_INDEX


@dataclass
class Counter:
    """Counts with any rule, and remembers how it was called."""

    rule: Callable[[str], int]
    max_tokens: int = 254
    calls: int = 0

    def count(self, texts: Sequence[str]) -> list[int]:
        self.calls += 1
        return [self.rule(text) for text in texts]


RULES: dict[str, Callable[[str], int]] = {
    "words": lambda text: len(text.split()),
    "words and marks": lambda text: len(re.findall(r"\w+|[^\w\s]", text)),
    "characters": len,
    "bytes": lambda text: len(text.encode("utf-8")),
    "a quarter of the characters, rounded down": lambda text: len(text) // 4,
    "one for the text itself": lambda text: len(text.split()) + 1,
    "line ends count": lambda text: len(re.findall(r"\w+|\n", text)),
}

LONG = {
    "a line without a blank": 'DATA = "' + "a" * 400_000 + '"\n',
    "one-line JSON in a fence": "# T\n\n```json\n" + '{"a":' + "1," * 100_000 + "1}\n```\n",
    "a paragraph in one line": "This is a sentence of some words. " * 2_000 + "\n",
    "emoji": "🤣" * 20_000 + "\n",
    "words of one letter": "a " * 50_000 + "\n",
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("content", LONG.values(), ids=LONG)
@pytest.mark.parametrize("path", ["big.md", "big.py", "big.txt"])
def test_every_chunk_is_under_the_limit(path: str, content: str, rule: Callable[[str], int]) -> None:
    counter = Counter(rule)
    file = parsed(path, content, counter=counter)
    assert file.chunks
    assert max(rule(chunk.embedded_text) for chunk in file.chunks) <= 254
    assert max(len(chunk.embedded_text) for chunk in file.chunks) <= 254 * 16 + 200
    assert_true_to_the_source(path, content, file.chunks)
    assert uncovered_lines(path, content, file.chunks) == []


@given(
    st.lists(st.text(alphabet="ab .\t", max_size=40), max_size=30).map("\n".join),
    st.sampled_from(list(RULES.values())),
    st.integers(1, 60),
)
def test_any_limit_is_kept_and_no_line_lost(content: str, rule: Callable[[str], int], max_tokens: int) -> None:
    counter = Counter(rule, max_tokens=max_tokens)
    file = parsed("f", content, counter=counter)
    assert_true_to_the_source("f", content, file.chunks)
    assert uncovered_lines("f", content, file.chunks) == []


def test_the_limit_holds_the_context_header_too() -> None:
    path = "a-long-folder-name/" * 40 + "file.md"
    content = "# " + "Heading words " * 40 + "\n\n" + "Some words of text. " * 500
    counter = Counter(RULES["words and marks"])
    for chunk in parsed(path, content, counter=counter).chunks:
        assert counter.rule(chunk.embedded_text) <= 254
        assert counter.rule(chunk.context) <= 254 // 3
        assert chunk.context.startswith("…")


def test_a_model_that_takes_more_is_still_given_the_wanted_size() -> None:
    counter = Counter(RULES["words and marks"], max_tokens=8_000)
    sizes = [counter.rule(chunk.embedded_text) for chunk in parsed("a.txt", "word " * 5_000, counter=counter).chunks]
    assert 400 < max(sizes) <= 500


def test_every_word_of_a_huge_line_is_found_in_some_chunk() -> None:
    content = " ".join(f"id{number:06x}" for number in range(200_000))
    started = time.monotonic()
    chunks = chunks_of("ids.md", content, D3)
    assert time.monotonic() - started < 30
    assert [word for chunk in chunks for word in chunk.content.split()] == content.split()
    assert {(chunk.span.start, chunk.span.end) for chunk in chunks} == {(1, 1)}


def test_a_long_line_is_cut_behind_a_sentence() -> None:
    content = "This is a sentence with a number of words in it. " * 300
    *chunks, _ = chunks_of("a.md", content, D3)
    assert all(chunk.content.endswith("in it.") for chunk in chunks)


def test_lines_around_a_huge_one_are_chunks_of_their_own() -> None:
    content = "before\n" + "word " * 1_000 + "\nafter\n"
    chunks = chunks_of("a.txt", content, D3)
    assert (chunks[0].content, chunks[-1].content) == ("before", "after")
    assert all((chunk.span.start, chunk.span.end) == (2, 2) for chunk in chunks[1:-1])


def test_a_heading_stands_with_the_beginning_of_a_long_line() -> None:
    sentence = "This is a sentence with a number of words in it. "
    first, *others = chunks_of("a.md", "# Title\n\n" + sentence * 300 + "\n\n## Empty\n", D3)
    assert first.content.startswith("# Title\n\nThis is a sentence")
    assert (first.span.start, first.span.end) == (1, 3)
    assert [chunk.content for chunk in others if "Title" in chunk.content] == []
    assert others[-1].content == "## Empty"


def test_a_heading_over_a_huge_blank_line_is_kept() -> None:
    (chunk,) = chunks_of("a.md", "# Title\n\n" + "\t" * 50_000, D3)
    assert chunk.content == "# Title"


@pytest.mark.parametrize("blank", [" " * 50_000, "\t" * 50_000, "x" + " " * 900_000, " " * 900_000 + "x"])
def test_blanks_make_no_chunk_and_take_no_time(blank: str) -> None:
    started = time.monotonic()
    chunks = chunks_of("a.txt", f"first\n{blank}\nlast\n", D3)
    assert time.monotonic() - started < 10
    assert "".join(chunk.content for chunk in chunks).replace("\n", "").replace(" ", "").strip("\t") in (
        "firstlast",
        "firstxlast",
    )


def test_tokens_of_many_files_are_counted_in_few_calls() -> None:
    from strata.indexing.docs.windows import parse_text

    counter = Counter(RULES["words and marks"])
    files = [
        (f"{number}.txt", parse_text(f"{number}.txt", f"text of {number}\n" * 50).documents) for number in range(60)
    ]
    assert len(Chunker(counter=counter).cut(files)) == 60
    assert counter.calls <= 4


def test_the_same_file_gives_the_same_chunks() -> None:
    content = "# A\n\n" + "Some text. " * 400 + "\n\n## B\n\n- one\n- two\n"
    assert parsed("a.md", content) == parsed("a.md", content)


def test_windows_of_unknown_text_end_at_blank_lines() -> None:
    block = "function work(a) {\n  const b = a + 1;\n\n  return b;\n}\n"
    for chunk in chunks_of("src/a.js", "\n".join([block] * 60), D3):
        assert chunk.content.endswith("}")


@pytest.mark.parametrize(
    ("path", "layers"),
    [
        ("a.md", {"D1", "D3"}),
        ("a.MARKDOWN", {"D1", "D3"}),
        ("a.mdx", {"D1", "D3"}),
        ("a.py", {"C0", "C1"}),
        ("a.pyi", {"C0", "C1"}),
        ("Makefile", {"D1", "D3"}),
        ("a.rs", {"D1", "D3"}),
        (".gitignore", {"D1", "D3"}),
        ("md", {"D1", "D3"}),
    ],
)
def test_the_name_chooses_the_layers(path: str, layers: set[str]) -> None:
    assert {chunk.layer[:2] for chunk in parsed(path, "x = 1\n").chunks} == layers


def test_other_text_has_a_catalogue_entry_with_its_first_lines() -> None:
    chunk = chunks_of("conf/app.toml", "[project]\nname = 'x'\n\n[tool]\na = 1\n", Layer.D1_DOCUMENT_CATALOG)[0]
    assert (chunk.title, chunk.content) == ("app.toml", "app.toml\n[project] name = 'x'")
    assert (chunk.span.start, chunk.span.end) == (1, 2)
