from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.answering.augment import augment
from strata.answering.prompting import in_prompt_order, render_context
from strata.model.asking import Candidate, Context
from strata.model.corpus import Layer
from tests.support.asking import EMBEDDER, candidate, question, retrieved

LINES = "\n".join(f"line {number} says {number}" for number in range(1, 41))


def packed(candidates: Sequence[Candidate], texts: dict[int, str] | str = LINES, *, max_tokens: int = 2_000) -> Context:
    by_id = {made.chunk_id: texts for made in candidates} if isinstance(texts, str) else texts
    return augment(question(), retrieved(*candidates), by_id, counter=EMBEDDER, max_tokens=max_tokens)


def spans(context: Context) -> list[tuple[str, int, int]]:
    return [(piece.path, piece.span.start, piece.span.end) for piece in context.pieces]


def test_the_best_piece_of_each_file_comes_first() -> None:
    found = packed([candidate(1, "a.md", (1, 2)), candidate(2, "a.md", (9, 9)), candidate(3, "b.md", (3, 3))])
    assert spans(found) == [("a.md", 1, 2), ("b.md", 3, 3), ("a.md", 9, 9)]
    assert [piece.n for piece in found.pieces] == [1, 2, 3]


def test_text_is_cut_from_the_lines_never_from_rendered_content() -> None:
    (piece,) = packed([candidate(1, span=(2, 3), layer=Layer.C1_SYMBOL_CATALOG, content="rendered")]).pieces
    assert piece.text == "line 2 says 2\nline 3 says 3"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param((5, 10), (8, 12), [("a.md", 5, 12)], id="overlap"),
        pytest.param((5, 10), (6, 7), [("a.md", 5, 10)], id="inside"),
        pytest.param((6, 7), (5, 10), [("a.md", 5, 10)], id="around"),
        pytest.param((5, 6), (7, 8), [("a.md", 5, 6), ("a.md", 7, 8)], id="neighbours stay apart"),
    ],
)
def test_no_line_of_a_file_is_shown_twice(
    first: tuple[int, int], second: tuple[int, int], expected: list[tuple[str, int, int]]
) -> None:
    assert spans(packed([candidate(1, "a.md", first), candidate(2, "a.md", second)])) == expected


def test_what_is_too_long_is_cut_at_a_line_and_its_span_says_so() -> None:
    found = packed([candidate(1, "a.md", (1, 40))], max_tokens=300)
    (piece,) = found.pieces
    assert piece.span.start == 1
    assert 1 < piece.span.end < 40
    assert piece.text == "\n".join(LINES.split("\n")[: piece.span.end])
    assert found.tokens <= 300


def test_a_long_file_does_not_take_the_whole_context() -> None:
    found = packed([candidate(1, "a.md", (1, 40)), candidate(2, "b.md", (1, 40))], max_tokens=400)
    assert {piece.path for piece in found.pieces} == {"a.md", "b.md"}


def test_one_endless_line_is_cut_where_it_was_found() -> None:
    text = "x" * 400_000 + " needle " + "y" * 400_000
    found = packed([candidate(1, "big.py", (1, 1), content="needle " + "y" * 300)], text, max_tokens=200)
    (piece,) = found.pieces
    assert piece.text.startswith("needle")
    assert (piece.span.start, piece.span.end) == (1, 1)
    assert piece.text in text
    assert len(render_context(found)) <= 200 * 8


def test_candidates_without_readable_lines_are_left_out() -> None:
    found = packed(
        [candidate(1, "a.md", (1, 1)), candidate(2, "gone.md", (1, 1)), candidate(3, "short.md", (9, 9))],
        {1: "kept", 3: "one line"},
    )
    assert spans(found) == [("a.md", 1, 1)]
    assert packed([candidate(1, "blank.md", (1, 2))], " \n\t\nx").pieces == ()


def test_without_room_for_a_line_there_is_no_piece() -> None:
    assert packed([candidate(1, span=(1, 3))], max_tokens=5).pieces == ()
    assert packed([candidate(1, span=(1, 3))], max_tokens=0).pieces == ()


def test_a_window_with_reserve_and_history_is_never_overrun() -> None:
    window, reserve, history = 8_192, 5_120, 3_000
    text = "\n".join(["Сколько длится блокировка сессии и кто её продлевает, если владелец пропал?"] * 40)
    candidates = [candidate(number, f"docs/{number}.md", (1, 40)) for number in range(1, 21)]
    found = packed(candidates, text, max_tokens=window - reserve - history)
    assert found.pieces[0].path == "docs/1.md"
    assert EMBEDDER.count([render_context(found)])[0] + reserve + history <= window


def test_the_best_is_first_in_the_prompt_and_the_second_last() -> None:
    found = packed([candidate(number, f"{number}.md", (1, 1)) for number in range(1, 6)])
    assert [piece.n for piece in in_prompt_order(found.pieces)] == [1, 3, 5, 4, 2]
    assert sorted(piece.n for piece in in_prompt_order(found.pieces)) == [1, 2, 3, 4, 5]


_SPANS = st.tuples(st.integers(1, 45), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(st.tuples(st.sampled_from(["a.md", "b.md"]), _SPANS), max_size=12), st.integers(0, 900))
def test_whatever_is_found_the_context_keeps_its_promises(
    found: list[tuple[str, tuple[int, int]]], max_tokens: int
) -> None:
    """A piece is whole lines; of a single line that is longer than the room, it is a part."""
    context = packed(
        [candidate(number, path, span) for number, (path, span) in enumerate(found, 1)], max_tokens=max_tokens
    )
    assert EMBEDDER.count([render_context(context)])[0] <= context.tokens <= max_tokens
    lines = LINES.split("\n")
    shown = []
    for piece in context.pieces:
        whole = "\n".join(lines[piece.span.start - 1 : piece.span.end])
        assert piece.text == whole or (piece.text.strip() and "\n" not in whole and piece.text in whole)
        shown += [(piece.path, line) for line in range(piece.span.start, piece.span.end + 1)]
    assert len(shown) == len(set(shown))
    assert [piece.n for piece in context.pieces] == list(range(1, len(context.pieces) + 1))
