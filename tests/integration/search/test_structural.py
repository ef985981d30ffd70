"""Neighbours over links: documents beside the code that they describe, callers, callees; by the caller's rights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from strata.model.access import Identity
from strata.model.asking import Candidate, Filter, Question
from strata.model.corpus import Layer
from strata.ports.search import SearchRequest
from strata.retrieval.analyser import query_terms
from strata.retrieval.retrieve import Retriever
from strata.storage.postgres.connection import Database
from strata.storage.postgres.search import PostgresSearch
from tests.support.asking import EMBEDDER
from tests.support.factories import identity
from tests.support.indexing import IndexedSession
from tests.support.postgres import TestDatabase

ANN, BOB = identity("ann"), identity("bob")
FILES = {
    "src/shop/stock.py": "class Stock:\n    def take(self):\n        return 'zebra'\n",
    "src/shop/orders.py": "from .stock import Stock\n\n\nclass Order(Stock):\n    def place(self):\n        pass\n",
    "docs/guide.md": "# Giraffes\n\nHow `shop.stock.Stock` keeps its things.\n",
    "docs/other.md": "# Elephants\n\nNothing to do with it.\n",
    **{f"src/many/m{number}.py": "def run():\n    pass\n" for number in range(6)},
}


@pytest.fixture
def session(postgres: TestDatabase) -> Iterator[IndexedSession]:
    database = Database(postgres.index_url)
    yield IndexedSession(database, owner=ANN).open(readers=["user:bob"])
    database.close()


@pytest.fixture
def search(postgres: TestDatabase) -> Iterator[PostgresSearch]:
    database = Database(postgres.query_url)
    yield PostgresSearch(database)
    database.close()


def asked(text: str, caller: Identity = ANN, **filter: tuple[Layer, ...] | tuple[str, ...]) -> SearchRequest:
    """By words alone, so that nothing but words and links leads to a row."""
    return SearchRequest(
        question=Question(text=text, session_id="shop", identity=caller, filter=Filter(**filter), limit=50),  # type: ignore[arg-type]
        embedding=None, embedding_model=None, terms=query_terms(text), depth=50, structural_weight=0.5,
    )  # fmt: skip


def neighbours(rows: tuple[Candidate, ...]) -> set[str]:
    return {row.path for row in rows if row.structural_rank is not None}


def test_what_names_the_found_code_and_what_the_code_names_come_with_it(
    session: IndexedSession, search: PostgresSearch
) -> None:
    session.commit(FILES)
    found = search.search(asked("zebra")).candidates
    assert found[0].path == "src/shop/stock.py"
    assert {"src/shop/orders.py", "docs/guide.md"} <= neighbours(found)
    assert "docs/other.md" not in neighbours(found)
    for row in found:
        parts = [(1.0, row.lexical_rank), (0.5, row.structural_rank)]
        assert row.score == pytest.approx(sum(weight / (60 + rank) for weight, rank in parts if rank))
    ranks = sorted(row.structural_rank for row in found if row.structural_rank)
    assert ranks == list(range(1, len(ranks) + 1))
    assert "src/shop/stock.py" in neighbours(search.search(asked("giraffes")).candidates)


def test_a_name_that_many_files_define_leads_nowhere(session: IndexedSession, search: PostgresSearch) -> None:
    session.commit({**FILES, "docs/run.md": "# Hippos\n\nCall `run` then.\n"})
    assert not any(path.startswith("src/many/") for path in neighbours(search.search(asked("hippos")).candidates))


def test_neighbours_are_filtered_like_every_row(session: IndexedSession, search: PostgresSearch) -> None:
    session.commit(FILES)
    found = search.search(asked("zebra", exclude_path_prefixes=("docs/",), layers=(Layer.C0_SOURCE_CHUNKS,))).candidates
    assert neighbours(found) == {"src/shop/orders.py"}
    assert {row.layer for row in found} == {Layer.C0_SOURCE_CHUNKS}


def test_neither_a_hidden_neighbour_nor_a_hidden_link_shows(session: IndexedSession, search: PostgresSearch) -> None:
    session.commit(FILES, acl={"docs/guide.md": ["user:ann"]})
    assert "docs/guide.md" in neighbours(search.search(asked("zebra")).candidates)
    assert "docs/guide.md" not in {row.path for row in search.search(asked("zebra", BOB)).candidates}
    session.commit(FILES, acl={"src/shop/stock.py": ["user:ann"]})
    assert search.search(asked("zebra", BOB)).candidates == ()


def test_explained_parts_count_the_neighbours_in(session: IndexedSession, search: PostgresSearch) -> None:
    session.commit(FILES)
    request = asked("zebra")
    request = replace(request, question=replace(request.question, explain=True))
    found = search.search(request).candidates
    assert any(part.name == "structural" for row in found if row.explanation for part in row.explanation.parts)
    for row in found:
        assert row.explanation is not None
        assert sum(part.part for part in row.explanation.parts) == pytest.approx(row.score)


def test_the_use_case_brings_neighbours_where_they_have_a_weight(
    session: IndexedSession, search: PostgresSearch
) -> None:
    session.commit(FILES)
    question = asked("zebra").question
    plain = Retriever(search=search, embedder=EMBEDDER, depth=50)
    assert neighbours(plain.retrieve(question).candidates) == set()
    weighed = replace(plain, structural_weight=0.5).retrieve(question).candidates
    assert {"src/shop/orders.py", "docs/guide.md"} <= neighbours(weighed)


def test_without_a_weight_links_are_not_read(session: IndexedSession, search: PostgresSearch) -> None:
    session.commit(FILES)
    vector = EMBEDDER.embed_query("zebra")
    request = replace(asked("zebra"), structural_weight=0.0, embedding=vector, embedding_model=EMBEDDER.model_id)
    assert neighbours(search.search(request).candidates) == set()
