"""What a new index leaves in the tables, and what readers see while it comes."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from strata.model.asking import Question
from strata.model.corpus import Layer, PreparedBlob
from strata.ports.search import SearchRequest
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.search import PostgresSearch
from strata.storage.postgres.sessions import PostgresSessionStore
from tests.support.factories import EMBEDDING_MODEL, embedded_chunk, identity, prepared_blob, unit_vector
from tests.support.index_statistics import assert_rows_agree
from tests.support.new_index_contract import count, fill, flip, new_index, rebuilt, roll_back
from tests.support.postgres import TestDatabase
from tests.support.session_store_contract import SESSION_ID, commit_request, create_session, prepare
from tests.support.term_blocks import make_small_blocks, rows_with_a_place

SWAPS = 100


@pytest.fixture
def store(database: Database) -> PostgresSessionStore:
    store = PostgresSessionStore(database)
    create_session(store)
    return store


def test_average_lengths_are_those_of_the_whole_new_index(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    blobs = [
        prepared_blob(f"{n}.md", f"{n}", chunks=[embedded_chunk(f"c{n}", term_counts={f"t{i}": 1 for i in range(n)})])
        for n in (2, 4, 9)
    ]
    cache.keep(blobs)
    index_id = store.begin_index(new_index(*blobs, seq=1, fence=1))
    for blob in blobs:
        fill(store, index_id, blob, fence=1, job_id="job-1")
    count(store, index_id, fence=1, job_id="job-1")
    flip(store, index_id, files=3, seq=1, fence=1)
    assert assert_rows_agree(postgres.owner_url) == 3
    with psycopg.connect(postgres.owner_url) as connection:
        rows = connection.execute(
            "SELECT layer, chunk_count, pinned_average_length FROM rag_index_layers WHERE index_id = %s", [index_id]
        ).fetchall()
    assert rows == [(Layer.D3_SECTION_INDEX.value, 3, 5.0)]


def test_the_drift_of_average_lengths_is_told(
    store: PostgresSessionStore, cache: PostgresBlobCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.storage.postgres.sessions.LEAST_CHUNKS_THAT_DRIFT", 2)
    pairs = {
        name: prepared_blob(f"{name}.md", name, chunks=[embedded_chunk(name, term_counts=dict.fromkeys(words, 1))])
        for name, words in {"short": "ab", "long": "abcdef"}.items()
    }
    cache.keep(list(pairs.values()))
    store.commit(commit_request(pairs["short"]))
    assert store.length_drift(SESSION_ID) == 0.0
    store.commit(commit_request(pairs["long"], seq=2, fence=2))
    assert store.length_drift(SESSION_ID) == pytest.approx(1.0)  # 2 were pinned, the average of 2 and 6 is 4
    rebuilt(store, *pairs.values(), seq=3, fence=3)
    assert store.length_drift(SESSION_ID) == 0.0


def rows_in_cells(postgres: TestDatabase, index_id: int) -> int | None:
    with psycopg.connect(postgres.owner_url) as connection:
        row = connection.execute("SELECT nearest_rows FROM rag_indexes WHERE index_id = %s", [index_id]).fetchone()
    assert row is not None
    return None if row[0] is None else int(row[0])


def test_an_index_that_its_holder_left_at_the_flip_is_made_fast_by_who_comes_after(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small_blocks(monkeypatch)
    tidied: list[int] = []
    monkeypatch.setattr("strata.storage.postgres.sessions.LARGE_COMMIT_CHUNKS", 3)
    monkeypatch.setattr(store, "tidy", tidied.append)
    monkeypatch.setattr(store, "_nearest_from_rows", 3)
    blobs = [prepare(cache, f"{n}.md", "one word") for n in range(3)]
    index_id = store.begin_index(new_index(*blobs, seq=1, fence=1))
    fill(store, index_id, *blobs, fence=1, job_id="job-1")
    count(store, index_id, fence=1, job_id="job-1")
    flip(store, index_id, files=3, seq=1, fence=1)
    assert (rows_with_a_place(postgres), rows_in_cells(postgres, index_id)) == ((0, 0), None)
    assert store.commit(commit_request(seq=1, fence=2)).replayed
    assert (rows_with_a_place(postgres), rows_in_cells(postgres, index_id), tidied) == ((3, 0), 3, [index_id])
    store.commit(commit_request(seq=2, fence=2))
    assert tidied == [index_id]


def test_a_collected_index_leaves_no_row(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.storage.postgres.new_index.COLLECTED_ROWS", 2)
    make_small_blocks(monkeypatch)
    monkeypatch.setattr("strata.storage.postgres.term_blocks.FREQUENT_ROWS", 0)
    store.commit(commit_request(*[prepare(cache, f"{n}.md", f"one {n}\n\ntwo {n}") for n in range(4)]))
    for seq in (2, 3):
        rebuilt(store, prepare(cache, "a.md", f"{seq}"), seq=seq, fence=seq)
    assert store.collect_indexes(SESSION_ID) == 1
    assert assert_rows_agree(postgres.owner_url) == 2
    with psycopg.connect(postgres.owner_url) as connection:
        counts = connection.execute(
            "SELECT (SELECT count(*) FROM rag_indexes), (SELECT count(*) FROM rag_session_chunk_map),"
            " (SELECT count(DISTINCT index_id) FROM rag_index_terms),"
            " (SELECT count(DISTINCT index_id) FROM rag_term_blocks), (SELECT count(*) FROM rag_block_rows)"
        ).fetchone()
    assert counts == (2, 2, 2, 2, 2)


def test_a_filler_that_was_thought_dead_writes_nothing_into_a_collected_index(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    blob = prepare(cache, "a.md")
    index_id = store.begin_index(new_index(blob, seq=1, fence=1))
    store.collect_indexes(SESSION_ID)
    with pytest.raises(Exception, match="newer holder"):
        fill(store, index_id, blob, fence=1, job_id="job-1")
    assert assert_rows_agree(postgres.owner_url) == 0


def test_batches_written_at_the_same_time_count_every_chunk(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    """They share layers and words, and one brings a layer that nothing was pinned for."""
    blobs = [
        prepared_blob(
            f"{n:02}.md",
            f"{n}",
            chunks=[
                embedded_chunk(f"c{n}", layer=layer, term_counts={f"t{i}": 1 for i in range(60)})
                for layer in (Layer.D1_DOCUMENT_CATALOG, Layer.D3_SECTION_INDEX)[: 1 + n % 2]
            ],
        )
        for n in range(40)
    ]
    cache.keep(blobs)
    index_id = store.begin_index(new_index(*blobs[::2], seq=1, fence=1))
    faults: list[str] = []

    def write(batches: list[PreparedBlob]) -> None:
        own = store.in_new_process()
        for start in range(0, len(batches), 4):
            try:
                fill(own, index_id, *batches[start : start + 4], fence=1, job_id="job-1")
            except Exception as error:
                faults.append(repr(error))

    writers = [threading.Thread(target=write, args=(blobs[start::4],)) for start in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert faults == []
    count(store, index_id, fence=1, job_id="job-1")
    assert flip(store, index_id, files=40, seq=1, fence=1).chunks == 60
    assert assert_rows_agree(postgres.owner_url) == 60


def test_a_reader_sees_one_index_or_the_other(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    """Through swaps, roll-backs and collections: never a mixture, never nothing, never a row of a collected file."""
    versions = [
        [prepare(cache, f"{version}/{n}.md", f"common word {version} {n}") for n in range(5)] for version in range(4)
    ]
    store.commit(commit_request(*versions[0]))
    over, seen, faults = threading.Event(), set[str](), list[str]()

    def read() -> None:
        database = Database(postgres.query_url)
        search = PostgresSearch(database)
        question = Question(text="common word", session_id=SESSION_ID, identity=identity(), limit=20)
        request = SearchRequest(
            question=question,
            embedding=unit_vector("common word"),
            embedding_model=EMBEDDING_MODEL,
            terms=("common", "word"),
            depth=50,
        )
        while not over.is_set():
            try:
                paths = {candidate.path for candidate in search.search(request).candidates}
            except Exception as error:
                faults.append(repr(error))
                break
            found = {path.split("/")[0] for path in paths}
            seen.update(found)
            if len(found) != 1 or len(paths) != 5:
                faults.append(f"{sorted(paths)}")
        database.close()

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for seq in range(2, SWAPS + 2):
            if seq % 5 == 0:
                roll_back(store, seq=seq, fence=seq)
            else:
                rebuilt(store, *versions[seq % 4], seq=seq, fence=seq)
            if seq % 3 == 0:
                store.collect_indexes(SESSION_ID)
    finally:
        over.set()
        for reader in readers:
            reader.join()
    assert faults == []
    assert seen == {"0", "1", "2", "3"}


def test_a_search_runs_after_an_index_that_is_replaced_again_and_again(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = prepare(cache, "a.md", "word")
    store.commit(commit_request(blob))
    monkeypatch.setattr("strata.storage.postgres.search._PATIENCE_S", 60.0)  # the swaps' time is the machine's business
    database = Database(postgres.query_url)
    search = PostgresSearch(database)
    learn, swaps = search._index_of, iter(range(2, 12))

    def learn_and_be_overtaken(*arguments: Any) -> int:
        index_id = learn(*arguments)
        if (seq := next(swaps, None)) is not None:
            rebuilt(store, blob, seq=seq, fence=seq)
        return index_id

    monkeypatch.setattr(search, "_index_of", learn_and_be_overtaken)
    found = search.files(SESSION_ID, identity(), ["a.md"], limit=5)
    assert [candidate.path for candidate in found.candidates] == ["a.md"]
    assert next(swaps, None) is None
    database.close()
