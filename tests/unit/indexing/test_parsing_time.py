"""The time of any parser grows with a file's length, not with its square: no marks, however repeated, hold a worker."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata.indexing.prepare import parser_for

CHARACTERS = 100_000
"""Where one expression takes the square of this, a parser needs eight seconds and more."""
MOST_S = 3

MARKS = (
    *(" \t\n.,:;`'\"*_~=-+|#\\/<>()[]{}@&^!1aжé\u00a0🤣"), "\n ", "- ", "> ", "a.b", "aB", "](", "``", "**", "::",
    "must ", "not be ", "e.g. ", "http://", "@a\n", "if a:\n ", "lambda:", "f(",
)  # fmt: skip


@pytest.mark.parametrize("path", ["a.md", "a.rst", "a.py", "a.js"])
@settings(max_examples=40, deadline=None)
@given(
    before=st.text(max_size=3),
    marks=st.lists(st.sampled_from(MARKS), min_size=1, max_size=3),
    behind=st.sampled_from(["", "x", "\n", "` x"]),
)
@example(before="", marks=[":", "a"], behind="")
@example(before="`", marks=[" "], behind="x")
@example(before="# a", marks=[" "], behind="b\n")
def test_repeated_marks_are_parsed_in_time(path: str, before: str, marks: list[str], behind: str) -> None:
    repeated = "".join(marks)
    text = before + repeated * (CHARACTERS // len(repeated)) + behind
    started = time.process_time()
    parser_for(path)(path, text)
    assert time.process_time() - started < MOST_S
