"""Rows that are written by COPY are those that commits would have written: statistics, weights, and what is found."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from strata.model.asking import Retrieved
from strata.providers.hashed.embedder import HashedEmbedder
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database, connect
from strata.storage.postgres.search import PostgresSearch
from strata.storage.postgres.sessions import PostgresSessionStore
from strata_bench import bulk, copies
from strata_bench.bulk import Base, BulkSession, tidy_all
from strata_bench.copies import GrownSession, embedded_chunks
from strata_bench.corpus import Corpus
from strata_bench.searches import SHARES, search_request
from strata_bench.workbench import IDENTITY, make_session
from tests.support.index_statistics import assert_rows_agree
from tests.support.postgres import TestDatabase

Row = tuple[str, str, int]

EMBEDDER = HashedEmbedder()
BENCH = Path(bulk.__file__).parent
QUESTIONS = (
    "how are rows written by COPY?",
    "GrownSession",
    "which share of the readers may find a row, and what is the recall of the approximate plan?",
    "processor time of the server",
)
HEAVIER_THAN_ITS_BOUND = """
    SELECT count(*) FROM rag_chunk_terms AS chunk CROSS JOIN unnest(chunk.term_keys) AS key
    JOIN rag_index_terms AS held ON held.index_id = chunk.index_id AND held.layer = chunk.layer
        AND held.term_id = (key & 4294967295)::int
    WHERE -(chunk.weights <#> format('{%s:1}/1000000000', held.term_id)::sparsevec) > held.greatest_weight
"""

TIDIED = """
    SELECT array_agg(pg_stat_get_analyze_count(part) > 0)
    FROM (SELECT DISTINCT tableoid AS part FROM rag_chunk_terms) AS parts
"""
"""Of each partition with rows, whether somebody asked for its statistics, as tidying does (autovacuum counts apart)."""


class Bench:
    def __init__(self, database: TestDatabase) -> None:
        self.database = database
        index = Database(database.index_url)
        self.sessions, self.cache = PostgresSessionStore(index), PostgresBlobCache(index)
        self.search = PostgresSearch(Database(database.query_url))
        files = {path.name: path.read_text(encoding="utf-8") for path in sorted(BENCH.glob("*.py"))}
        self.base = embedded_chunks(Corpus(name="bench", files=files, questions=()), EMBEDDER, at_most=10_000)
        with connect(database.owner_url) as connection:
            self.arrays = Base.of(self.base, connection)

    def committed(self, name: str) -> GrownSession:
        make_session(self.sessions, name, EMBEDDER)
        return GrownSession(
            session_id=name,
            tenant=IDENTITY.tenant,
            base=self.base,
            cache=self.cache,
            sessions=self.sessions,
            embedding_model=EMBEDDER.model_id,
        )

    def copied(self, name: str, *, tidies: bool = True) -> BulkSession:
        return BulkSession(grown=self.committed(name), base=self.arrays, url=self.database.owner_url, tidies=tidies)

    def ask(self, name: str, question: str, group: str) -> Retrieved:
        return self.search.search(search_request(EMBEDDER, name, question, EMBEDDER.embed_query(question), group))


@pytest.fixture
def bench(postgres: TestDatabase) -> Bench:
    return Bench(postgres)


def test_the_statistics_are_those_of_the_rows_after_each_growth_and_after_commits(bench: Bench) -> None:
    session = bench.copied("one")
    chunks = len(bench.base)
    assert session.grow(chunks // 3) == assert_rows_agree(bench.database.owner_url)
    assert session.grow(2 * chunks + 50) == assert_rows_agree(bench.database.owner_url) > 2 * chunks
    session.churn(3)
    assert assert_rows_agree(bench.database.owner_url) > 2 * chunks
    with psycopg.connect(bench.database.owner_url) as connection:
        assert connection.execute(HEAVIER_THAN_ITS_BOUND).fetchone() == (0,)


def test_a_search_finds_what_it_finds_in_committed_rows(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bulk, copies):  # exact copies, so that both hold the same
        monkeypatch.setattr(module, "NOISE", 0.0)
        monkeypatch.setattr(module, "CHANGED_TERMS", 0.0)
    chunks = len(bench.base)
    assert bench.copied("copied").grow(chunks) == bench.committed("committed").grow(chunks) == chunks
    for question in QUESTIONS:
        for group in SHARES.values():
            copied, committed = (_found(bench.ask(name, question, group)) for name in ("copied", "committed"))
            for one, other in ((copied, committed), (committed, copied)):
                assert _certain(one) <= other.keys()
                for row in one.keys() & other.keys():
                    assert one[row] == pytest.approx(other[row], rel=1e-5)
    assert len(_found(bench.ask("copied", QUESTIONS[0], "all"))) == 50


def test_sessions_that_are_tidied_at_the_end_hold_copies_of_their_own(bench: Bench) -> None:
    sessions = [bench.copied(f"many-{number}", tidies=False) for number in range(3)]
    for number, session in enumerate(sessions):
        session.grown.first = number * len(bench.arrays.files)
        session.grow(100)
    tidy_all(bench.database.owner_url)
    assert assert_rows_agree(bench.database.owner_url) == sum(session.grown.chunks for session in sessions)
    found = [bench.ask(session.grown.session_id, QUESTIONS[0], "all").best_distance for session in sessions]
    assert len(set(found)) == len(found)
    with psycopg.connect(bench.database.owner_url) as connection:
        (tidied,) = connection.execute(TIDIED).fetchone() or ([],)
    assert tidied
    assert all(tidied)


def _certain(found: dict[Row, tuple[float, ...]]) -> set[Row]:
    """The rows above those that share the last score: which of equals a full list ends with, their numbers decide."""
    last = min((score for score, *_ in found.values()), default=0.0)
    return {row for row, (score, *_) in found.items() if score > last * (1 + 1e-5)}


def _found(retrieved: Retrieved) -> dict[Row, tuple[float, ...]]:
    return {
        (row.path, row.layer.value, row.ordinal): (row.score, row.bm25 or 0.0, row.distance or 0.0)
        for row in retrieved.candidates
    }
