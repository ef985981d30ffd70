"""Two at once: no deadlock, no lost count, no mixture."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import psycopg

from strata.errors import SessionNameTaken, StaleFence
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.sessions import PostgresSessionStore
from tests.support.factories import embedded_chunk, identity, prepared_blob
from tests.support.index_statistics import assert_rows_agree
from tests.support.postgres import TestDatabase
from tests.support.session_store_contract import SESSION_ID, commit_request, create_session

T = TypeVar("T")


@contextmanager
def adapters(url: str) -> Iterator[tuple[PostgresSessionStore, PostgresBlobCache]]:
    """A store and a cache on a connection of their own, as another process would have them."""
    database = Database(url)
    try:
        yield PostgresSessionStore(database), PostgresBlobCache(database)
    finally:
        database.close()


def at_once(url: str, workers: int, work: Callable[[int, PostgresSessionStore, PostgresBlobCache], T]) -> list[T]:
    """What `work` gave in each of the workers, which begin together."""
    together = threading.Barrier(workers)

    def run(number: int) -> T:
        with adapters(url) as (store, cache):
            store.get("opens-the-connection")
            together.wait(timeout=30)
            return work(number, store, cache)

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(run, range(workers)))


def test_keeps_of_the_same_new_words_do_not_deadlock(postgres: TestDatabase) -> None:
    words = [f"word{n}" for n in range(3_000)]

    def work(number: int, store: PostgresSessionStore, cache: PostgresBlobCache) -> None:
        order = words[number * 500 :] + words[: number * 500]
        if number % 2:
            order.reverse()
        shared = [prepared_blob(f"shared-{n}.md", f"{n}") for n in range(20)]
        own = prepared_blob(f"own-{number}.md", chunks=[embedded_chunk("x", term_counts=dict.fromkeys(order, 1))])
        cache.keep([*(shared if number % 2 else reversed(shared)), own])

    at_once(postgres.index_url, 4, work)
    with psycopg.connect(postgres.owner_url) as connection:
        blobs = connection.execute("SELECT count(*), count(DISTINCT path) FROM rag_blob_cache").fetchone()
        chunks = connection.execute("SELECT count(*) FROM rag_chunk_cache").fetchone()
        whole = connection.execute(
            "SELECT count(*) FROM rag_chunk_cache WHERE length = 3000 AND length(terms) = 24000"
        ).fetchone()
    assert (blobs, chunks, whole) == ((24, 24), (24,), (4,))


def test_commits_of_different_sessions_run_side_by_side(postgres: TestDatabase) -> None:
    """The sessions share a partition's indexes, the dictionary and the cache; no count is lost."""

    def work(number: int, store: PostgresSessionStore, cache: PostgresBlobCache) -> None:
        session_id = f"session-{number}"
        create_session(store, session_id)
        for seq in range(1, 9):
            blobs = [prepared_blob(f"{n}.md", f"text {seq % 3} {n}\n\nsecond {n}") for n in range(10)]
            cache.keep(blobs)
            deletes = [f"{n}.md" for n in range(seq)]
            store.commit(commit_request(*blobs[seq:], seq=seq, session_id=session_id, deletes=deletes))

    at_once(postgres.index_url, 4, work)
    assert assert_rows_agree(postgres.owner_url) == 4 * 2 * 2


def test_one_of_two_jobs_with_the_same_seq_wins(postgres: TestDatabase) -> None:
    with adapters(postgres.index_url) as (store, cache):
        create_session(store)
        blobs = [prepared_blob(f"{n}.md", f"text {n}") for n in range(4)]
        cache.keep(blobs)

    def work(number: int, store: PostgresSessionStore, cache: PostgresBlobCache) -> str:
        try:
            store.commit(commit_request(blobs[number], job_id=f"job-{number}"))
        except StaleFence:
            return "stale"
        return "applied"

    assert Counter(at_once(postgres.index_url, 4, work)) == {"applied": 1, "stale": 3}
    assert assert_rows_agree(postgres.owner_url) == 1


def test_the_same_job_delivered_twice_is_applied_once(postgres: TestDatabase) -> None:
    with adapters(postgres.index_url) as (store, cache):
        create_session(store)
        blob = prepared_blob("a.md", "text")
        cache.keep([blob])

    def work(number: int, store: PostgresSessionStore, cache: PostgresBlobCache) -> tuple[bool, int]:
        result = store.commit(commit_request(blob))
        return result.replayed, result.generation

    assert sorted(at_once(postgres.index_url, 3, work)) == [(False, 1), (True, 1), (True, 1)]
    assert assert_rows_agree(postgres.owner_url) == 1


def test_one_of_two_that_want_a_name_gets_it(postgres: TestDatabase) -> None:
    def work(number: int, store: PostgresSessionStore, cache: PostgresBlobCache) -> str:
        try:
            return create_session(store, owner=identity(f"user-{number}")).owner
        except SessionNameTaken:
            return "taken"

    found = Counter(at_once(postgres.index_url, 4, work))
    assert found["taken"] == 3
    with adapters(postgres.index_url) as (store, _):
        session = store.get(SESSION_ID)
        assert session is not None
        assert found[session.owner] == 1


def test_a_reader_sees_the_old_index_or_the_new_one(postgres: TestDatabase) -> None:
    """Each commit replaces every file with text of one version; a reader that finds two versions saw a mixture."""
    with adapters(postgres.index_url) as (store, cache):
        create_session(store)
        versions = [
            [prepared_blob(f"{n}.md", f"version{version}\n\nfile {n}") for n in range(30)] for version in range(6)
        ]
        for blobs in versions:
            cache.keep(blobs)
        store.commit(commit_request(*versions[0], seq=1))
    ended = threading.Event()
    seen: list[tuple[int, list[str], int]] = []

    def read() -> None:
        with psycopg.connect(postgres.query_url, autocommit=True) as connection:
            while not ended.is_set() or not seen:
                with connection.transaction():
                    connection.execute(
                        "SELECT set_config('strata.tenant', 'acme', true),"
                        " set_config('strata.principals', '[\"user:ann\"]', true)"
                    )
                    row = connection.execute(
                        "SELECT s.generation, array_agg(DISTINCT c.content), count(*)"
                        " FROM rag_sessions AS s JOIN rag_chunks AS c ON c.index_id = s.active_index_id"
                        " WHERE c.ordinal = 0 GROUP BY s.generation"
                    ).fetchone()
                assert row is not None
                seen.append(row)

    with ThreadPoolExecutor(1) as pool, adapters(postgres.index_url) as (store, _):
        reader = pool.submit(read)
        try:
            for seq in range(2, 7):
                store.commit(commit_request(*versions[seq - 1], seq=seq))
        finally:
            ended.set()
        reader.result(timeout=30)
    assert all(found == (generation, [f"version{generation - 1}"], 30) for found in seen for generation in [found[0]])
    generations = [generation for generation, _, _ in seen]
    assert generations == sorted(generations)
    assert len(set(generations)) > 1, "the reader never ran beside a commit"
