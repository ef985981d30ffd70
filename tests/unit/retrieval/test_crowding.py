"""Rows of one file pay for each other, a file's best row never, and what is preferred stays in front."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest

from strata.model.asking import Candidate
from strata.model.corpus import Layer, Span
from strata.retrieval.crowding import PRICE, spread

C0, C1 = Layer.C0_SOURCE_CHUNKS, Layer.C1_SYMBOL_CATALOG
numbers = itertools.count(1)


def row(
    path: str, score: float, *, layer: Layer = C0, lines: tuple[int, int] | None = None, test_penalty: int = 0
) -> Candidate:
    number = next(numbers)
    start, end = lines or (number * 100, number * 100 + 10)
    return Candidate(
        chunk_id=number, path=path, layer=layer, ordinal=0, title=path, content="text", blob_sha=path, metadata={},
        span=Span(start=start, end=end), score=score, dense_rank=1, distance=0.5, lexical_rank=None, bm25=0.0,
        test_penalty=test_penalty,
    )  # fmt: skip


def ordered(rows: list[Candidate]) -> list[tuple[Candidate, float]]:
    """The rows in their order, each with the score that is left."""
    scores = [one.score for one in rows]
    return [(rows[number], scores[number] - PRICE * doublings) for number, doublings in spread(rows, scores)]


def by_chance(chance: random.Random) -> list[Candidate]:
    return [row(chance.choice("abcdef"), chance.choice([chance.uniform(0, 12), 3.0])) for _ in range(60)]


def test_a_file_that_is_far_ahead_fills_the_page() -> None:
    ahead = [row("right", 20 - number / 10) for number in range(10)]
    others = [row(f"other{number}", 9.0) for number in range(10)]
    assert {one.path for one, _ in ordered([*others, *ahead])[:10]} == {"right"}


def test_among_equals_each_file_is_seen_before_one_is_seen_twice() -> None:
    rows = [row(path, 5.0 - number / 10) for path in "abcde" for number in range(4)]
    assert [one.path for one, _ in ordered(rows)[:5]] == list("abcde")


def test_the_order_of_the_files_stays_and_so_does_that_of_a_file_s_rows() -> None:
    chance = random.Random(7)
    for _ in range(50):
        rows = sorted(by_chance(chance), key=lambda one: -one.score)
        found = [one for one, _ in ordered(rows)]
        assert list(dict.fromkeys(one.path for one in found)) == list(dict.fromkeys(one.path for one in rows))
        for path in "abcdef":
            mine = [one.chunk_id for one in found if one.path == path]
            assert mine == [one.chunk_id for one in rows if one.path == path]


def test_the_scores_that_are_left_fall_from_row_to_row() -> None:
    chance = random.Random(8)
    for _ in range(50):
        found = ordered(by_chance(chance))
        assert all(one >= other for (_, one), (_, other) in itertools.pairwise(found))
        above: Counter[str] = Counter()
        for one, left in found:
            assert left == pytest.approx(one.score - PRICE * math.log2(1 + above[one.path]))
            above[one.path] += 1


def test_what_is_preferred_stays_in_front_and_pays_for_its_own_kind_alone() -> None:
    code, tests = [row("a", 1.0), row("a", 0.9)], [row("a", 9.0, test_penalty=1), row("b", 8.0, test_penalty=1)]
    assert ordered([*tests, *code]) == [(code[0], 1.0), (code[1], 0.9 - PRICE), (tests[0], 9.0), (tests[1], 8.0)]


def test_nobody_pays_for_a_row_that_gives_way_to_its_twin() -> None:
    text, entry = row("a", 5.0, lines=(1, 40)), row("a", 4.9, layer=C1, lines=(3, 40))
    below = row("a", 4.0, lines=(50, 60))
    assert [left for _, left in ordered([text, entry, below])] == [5.0, 4.9 - PRICE, 4.0 - PRICE]


def test_nothing_to_spread() -> None:
    assert spread([], []) == []
