from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from strata.model.asking import Also, Candidate, Retrieved
from strata.model.corpus import Layer, Span
from strata.retrieval.diversity import diversified

C0, C1 = Layer.C0_SOURCE_CHUNKS, Layer.C1_SYMBOL_CATALOG
D1, D2, D3, D4 = Layer.D1_DOCUMENT_CATALOG, Layer.D2_FACT_INDEX, Layer.D3_SECTION_INDEX, Layer.D4_POLICY_INDEX
numbers = itertools.count(1)


def row(path: str, layer: Layer, lines: tuple[int, int], **more: object) -> Candidate:
    number = next(numbers)
    known = {
        "chunk_id": number, "ordinal": 0, "title": path, "content": f"text {number}", "blob_sha": path, "metadata": {},
        "score": 1.0 / number, "dense_rank": 1, "distance": 0.5, "lexical_rank": None, "bm25": 0.0,
    }  # fmt: skip
    return Candidate(path=path, layer=layer, span=Span(start=lines[0], end=lines[1]), **{**known, **more})  # type: ignore[arg-type]


def shown_of(rows: Sequence[Candidate], limit: int, *, spread: bool = False) -> tuple[Candidate, ...]:
    found = Retrieved(candidates=tuple(rows), generation=1, embedding_model="m", spread=spread)
    return diversified(found, limit)


@pytest.mark.parametrize(
    ("better", "other", "is_twin"),
    [
        pytest.param((C0, (1, 40)), (C1, (3, 40)), True, id="a chunk and the entry of its one function"),
        pytest.param((C1, (3, 40)), (C0, (1, 40)), True, id="the other way round"),
        pytest.param((C0, (1, 60)), (C1, (10, 20)), True, id="an entry about lines that are shown"),
        pytest.param((C1, (1, 300)), (C0, (1, 60)), False, id="a class's entry does not stand for its text"),
        pytest.param((C0, (1, 20)), (C1, (15, 60)), False, id="a few lines in common"),
        pytest.param((D3, (5, 20)), (D2, (5, 18)), True, id="a section and its facts"),
        pytest.param((D4, (5, 20)), (D3, (5, 20)), True, id="a policy and its section"),
        pytest.param((D4, (5, 20)), (D2, (5, 20)), True, id="a policy and its facts"),
        pytest.param((D1, (1, 30)), (D3, (1, 30)), False, id="the catalogue entry says other things"),
        pytest.param((C0, (1, 40)), (C0, (30, 60)), False, id="two chunks that overlap"),
        pytest.param((C0, (1, 40)), (D3, (1, 40)), False, id="code and prose"),
    ],
)  # fmt: skip
def test_the_same_lines_are_shown_once(
    better: tuple[Layer, tuple[int, int]], other: tuple[Layer, tuple[int, int]], is_twin: bool
) -> None:
    first, second, third = row("a", *better), row("a", *other), row("b", C0, (1, 9))
    shown = shown_of([first, second, third], limit=2)
    assert [found.chunk_id for found in shown] == [first.chunk_id, (third if is_twin else second).chunk_id]
    assert shown[0].also == ((Also(layer=second.layer, path="a", span=second.span),) if is_twin else ())


@pytest.mark.parametrize(
    ("better", "other", "is_twin"),
    [
        pytest.param((C0, (1, 20)), (C1, (5, 60)), True, id="text of a quarter of a function, and its entry"),
        pytest.param((C0, (1, 20)), (C1, (10, 90)), False, id="text of an eighth"),
        pytest.param((C1, (1, 60)), (C0, (20, 40)), True, id="the entry of a short function, and a part of it"),
        pytest.param((C1, (1, 61)), (C0, (20, 40)), False, id="the entry of a long one"),
        pytest.param((C1, (1, 60)), (C0, (50, 80)), False, id="text that is mostly of others"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["function", "method"])
def test_a_part_of_a_short_function_speaks_for_the_whole_and_the_whole_for_it(
    better: tuple[Layer, tuple[int, int]], other: tuple[Layer, tuple[int, int]], kind: str, is_twin: bool
) -> None:
    known = {C0: {}, C1: {"symbol_kind": kind}}
    first, second = (row("a", layer, lines, metadata=known[layer]) for layer, lines in (better, other))
    third = row("b", C0, (1, 9))
    assert shown_of([first, second, third], limit=2)[1].path == ("b" if is_twin else "a")


def test_twins_come_back_where_nothing_else_is_left_and_nobody_speaks_for_them() -> None:
    rows = [row("a", C0, (1, 40)), row("a", C1, (1, 40)), row("b", C0, (1, 9))]
    assert shown_of(rows, limit=3) == tuple(rows)


def test_a_copy_of_a_file_is_named_by_the_one_that_is_shown() -> None:
    one = row("pkg1/LICENSE.md", D3, (1, 9), blob_sha="same", content="text")
    copy = row("pkg2/LICENSE.md", D3, (1, 9), blob_sha="same", content="text")
    rest = row("c", D3, (1, 9))
    shown = shown_of([one, copy, rest], limit=2)
    assert [found.path for found in shown] == ["pkg1/LICENSE.md", "c"]
    assert [also.path for also in shown[0].also] == ["pkg2/LICENSE.md"]
    assert [found.path for found in shown_of([one, copy], limit=2)] == ["pkg1/LICENSE.md", "pkg2/LICENSE.md"]


def test_one_file_takes_its_share_while_others_have_rows() -> None:
    rows = [row("big", C0, (i, i)) for i in range(1, 31)] + [row(f"f{i}", C0, (1, 1)) for i in range(10)]
    shown = shown_of(rows, limit=10)
    assert Counter(found.path for found in shown)["big"] == 4
    assert len(shown_of(rows[:30], limit=10)) == 10


def test_scores_that_keep_a_file_s_rows_apart_need_no_share() -> None:
    rows = [row("big", C0, (i, i)) for i in range(1, 31)] + [row("other", C0, (1, 1))]
    assert [found.chunk_id for found in shown_of(rows, limit=10, spread=True)] == [one.chunk_id for one in rows[:10]]


def test_preferences_come_before_variety() -> None:
    preferred = [row("tools/a.py", C0, (i, i), prefer_bonus=1) for i in range(1, 8)]
    others = [row(f"f{i}", C0, (1, 1)) for i in range(10)]
    shown = shown_of([*preferred, *others], limit=10)
    assert [found.prefer_bonus for found in shown] == [1] * 7 + [0] * 3
    assert [found.chunk_id for found in shown][:7] == [found.chunk_id for found in preferred]


def test_as_many_rows_as_there_are_in_their_order_each_once() -> None:
    chance = random.Random(4)
    for _ in range(200):
        rows = []
        for _ in range(chance.randint(0, 40)):
            start = chance.randint(1, 50)
            rows.append(row(chance.choice("abc"), chance.choice(list(Layer)), (start, start + chance.randint(0, 30))))
        limit = chance.randint(1, 45)
        shown = [found.chunk_id for found in shown_of(rows, limit)]
        assert len(shown) == min(limit, len(rows))
        assert shown == sorted(set(shown))
        if rows:
            assert shown[0] == rows[0].chunk_id


def test_a_part_of_a_copy_gives_way_to_a_larger_one() -> None:
    whole = row("pkg1/a.py", C0, (1, 40), content="one\ntwo", blob_sha="same")
    part = row("pkg2/a.py", C0, (21, 40), content="two", blob_sha="same")
    rest = row("b.py", C0, (1, 9))
    assert [found.path for found in shown_of([whole, part, rest], limit=2)] == ["pkg1/a.py", "b.py"]
    assert [found.path for found in shown_of([part, whole, rest], limit=2)] == ["pkg2/a.py", "pkg1/a.py"]
