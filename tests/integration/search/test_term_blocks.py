"""Frequent words in blocks: searches go by them, they say what the rows say, and go with their index."""

from __future__ import annotations

import random
from dataclasses import replace

import psycopg
import pytest

from strata.model.asking import Names
from strata.retrieval.statements import lexical
from strata.storage.postgres import term_blocks
from tests.support.factories import identity
from tests.support.search_rows import SearchRows, TextFile
from tests.support.term_blocks import make_small_blocks, rows_with_a_place

FREQUENT = [f"often{number}" for number in range(12)]
DIFFERENCES = """
    WITH held AS (
        SELECT b.index_id, b.term_id, r.chunk_ids[split_part(pair, ':', 1)::int] AS chunk_id,
               split_part(pair, ':', 2)::real / b.idf AS weight
        FROM rag_term_blocks AS b JOIN rag_block_rows AS r USING (index_id, block)
        CROSS JOIN unnest(string_to_array(split_part(ltrim(b.scores::text, '{'), '}', 1), ',')) AS pair
    ), rows (index_id, term_id, chunk_id, weight) AS (
        SELECT t.index_id, split_part(pair, ':', 1)::int, t.chunk_id, split_part(pair, ':', 2)::real
        FROM rag_chunk_terms AS t
        CROSS JOIN unnest(string_to_array(split_part(ltrim(t.weights::text, '{'), '}', 1), ',')) AS pair
    )
    SELECT count(held), count(*) FILTER (WHERE rows.weight IS NULL OR abs(held.weight / rows.weight - 1) > 1e-6),
           count(*) FILTER (WHERE held.weight IS NULL)
    FROM held FULL JOIN (SELECT * FROM rows WHERE term_id IN (SELECT term_id FROM held)) AS rows
        USING (index_id, term_id, chunk_id)
"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small_blocks(monkeypatch)
    monkeypatch.setattr(lexical, "SMALL_ROWS", 0)
    monkeypatch.setattr(lexical, "FIRST_DRAW_ROWS", 1)


@pytest.fixture
def filled(rows: SearchRows) -> SearchRows:
    """200 rows of frequent words, and a word that twenty of them hold; two in three are for readers in red."""
    chance = random.Random(3)
    rows.session("one", readers=["group:red"])
    rows.commit(
        "one",
        [
            TextFile(
                f"f{number}.py",
                [" ".join([*chance.choices(FREQUENT, k=chance.randint(2, 30)), *["seldom"][: number % 10 == 0]])],
                acl=None if number % 3 else ("user:ann",),
            )
            for number in range(200)
        ],
    )
    return rows


def scores(rows: SearchRows, question: str, **asked: object) -> list[tuple[int, float]]:
    request = replace(rows.request("one", question, depth=10, dense=False, **asked), names=Names())  # type: ignore[arg-type]
    expected = [(row.chunk_id, row.bm25 or 0.0) for row in rows.twin.search(request).candidates]
    found = [(row.chunk_id, row.bm25 or 0.0) for row in rows.search.search(request).candidates]
    assert [number for number, _ in found] == [number for number, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], rel=1e-5)
    return found


def test_blocks_hold_the_weights_of_each_row(filled: SearchRows) -> None:
    with psycopg.connect(filled.database.owner_url) as connection:
        held, wrong, missing = connection.execute(DIFFERENCES).fetchone() or (0, 0, 0)
    assert held > 1_000
    assert (wrong, missing) == (0, 0)


def test_a_search_finds_by_blocks_what_its_first_words_do_not(filled: SearchRows) -> None:
    question = " ".join(["seldom", *FREQUENT])
    before = scores(filled, question)
    with psycopg.connect(filled.database.owner_url) as connection:
        connection.execute("UPDATE rag_block_rows SET chunk_ids = '{}'")
    with pytest.raises(AssertionError):
        scores(filled, question)
    assert len(before) == 10


def test_rows_that_come_and_go_after_the_blocks_were_made(filled: SearchRows) -> None:
    question = " ".join(["seldom", *FREQUENT])
    best = scores(filled, question)[0][0]
    assert rows_with_a_place(filled.database) == (200, 0)
    [gone] = [row for row in filled.twin.chunks["one"] if row.chunk_id == best]
    filled.commit("one", [TextFile("new.py", [" ".join(FREQUENT * 2)])], deletes=[gone.chunk.path])
    assert rows_with_a_place(filled.database) == (199, 1)
    found = [number for number, _ in scores(filled, question)]
    assert best not in found
    assert max(found) > best  # the new row, which has no place
    filled.commit("one", [TextFile(f"more{number}.py", [" ".join(FREQUENT)]) for number in range(60)])
    assert rows_with_a_place(filled.database) == (260, 0)
    scores(filled, question)


def test_a_reader_of_few_rows_finds_the_best_of_these(filled: SearchRows) -> None:
    everybody = scores(filled, " ".join(["seldom", *FREQUENT]))
    some = scores(filled, " ".join(["seldom", *FREQUENT]), identity=identity("bob", groups=["red"]))
    assert some != everybody
    assert len(some) == 10


def test_without_enough_rows_there_are_no_blocks(rows: SearchRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_blocks, "LEAST_ROWS", 3)
    rows.session("one")
    rows.commit("one", [TextFile(f"f{number}.py", ["often again"]) for number in range(3)])
    assert rows_with_a_place(rows.database) == (0, 0)
    rows.commit("one", [TextFile("f3.py", ["often again"])])
    assert rows_with_a_place(rows.database) == (4, 0)


def test_blocks_go_with_their_session(filled: SearchRows) -> None:
    filled.sessions.delete("one", fence=100)
    while filled.sessions.purge("one"):
        pass
    with psycopg.connect(filled.database.owner_url) as connection:
        left = connection.execute(
            "SELECT (SELECT count(*) FROM rag_term_blocks), (SELECT count(*) FROM rag_block_rows)"
        ).fetchone()
    assert left == (0, 0)
