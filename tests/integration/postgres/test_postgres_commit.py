"""What a commit leaves in the tables."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
import pytest

from strata.errors import EmbeddingModelMismatch, InvalidRequest, StaleFence
from strata.model.corpus import MAX_PATH_BYTES, EmbeddedChunk, Layer, Note, PreparedBlob, checked_path
from strata.retrieval import bm25
from strata.storage.postgres import sessions
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.sessions import PostgresSessionStore
from tests.support.factories import DIMENSION, blob_key, embedded_chunk, file_entry, identity, prepared_blob
from tests.support.index_statistics import CACHED_COUNTS, CACHED_IDS, assert_rows_agree
from tests.support.postgres import TestDatabase
from tests.support.session_store_contract import commit_request, create_session, prepare

WEIGHTS = """
    SELECT t.chunk_id, d.term, ('{' || d.term_id || ':1}/1000000000')::sparsevec <#> t.weights
    FROM rag_chunk_terms AS t CROSS JOIN unnest(t.term_keys) AS key
    JOIN rag_terms AS d ON d.term_id = (key & 4294967295)
"""


def rows(postgres: TestDatabase, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(postgres.owner_url) as connection:
        return connection.execute(query.encode()).fetchall()


def kept(cache: PostgresBlobCache, path: str, *chunks: EmbeddedChunk, content: str = "text") -> PreparedBlob:
    blob = prepared_blob(path, content, chunks=chunks)
    cache.keep([blob])
    return blob


# --- what is written


def test_a_chunk_is_written_whole(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    create_session(store)
    chunk = embedded_chunk(
        "def f(): …",
        path="src/a.py",
        layer=Layer.C0_SOURCE_CHUNKS,
        ordinal=3,
        title="f",
        span=(5, 9),
        metadata={"qualified_name": "a.f", "nested": [1, {"ключ": None}], "day": datetime(2026, 1, 2, tzinfo=UTC)},
    )
    blob = kept(cache, "src/a.py", chunk)
    entry = file_entry("src/a.py", blob.source, acl=["group:dev"], last_modified=datetime(2026, 3, 4, tzinfo=UTC))
    store.commit(replace(commit_request(blob), upserts=(entry,)))
    found = rows(
        postgres,
        "SELECT path, layer, ordinal, title, content, span_start, span_end, blob_sha, acl, metadata FROM rag_chunks",
    )
    assert [row[:9] for row in found] == [
        ("src/a.py", "C0_SOURCE_CHUNKS", 3, "f", "def f(): …", 5, 9, entry.blob_sha, ["group:dev"])
    ]
    assert found[0][9] == {
        "qualified_name": "a.f",
        "nested": [1, {"ключ": None}],
        "day": "2026-01-02 00:00:00+00:00",
        "blob_sha": entry.blob_sha,
        "repo_id": "shop",
        "last_modified": "2026-03-04T00:00:00+00:00",
    }
    assert assert_rows_agree(postgres.owner_url) == 1


def test_the_vector_is_that_of_the_chunk(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    create_session(store)
    chunk = embedded_chunk("text")
    store.commit(commit_request(kept(cache, "docs/guide.md", chunk)))
    ((text,),) = rows(postgres, "SELECT embedding::text FROM rag_chunk_vectors")
    assert np.allclose(np.fromstring(text.strip("[]"), sep=","), chunk.embedding.astype(np.float16), atol=1e-6)


def test_weights_are_those_of_bm25(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    """The reference implementation and the statement use the same formula and the same pinned length."""
    create_session(store)
    counts = [{"alpha": 1, "beta": 7}, {"alpha": 3}, {"gamma": 2, "beta": 1, "delta": 40}]
    chunks = [embedded_chunk(f"text {place}", ordinal=place, term_counts=terms) for place, terms in enumerate(counts)]
    store.commit(commit_request(kept(cache, "docs/guide.md", *chunks)))
    average = sum(chunk.length for chunk in chunks) / len(chunks)
    assert rows(postgres, "SELECT pinned_average_length FROM rag_index_layers") == [(pytest.approx(average),)]
    ordinals = dict(rows(postgres, "SELECT chunk_id, ordinal FROM rag_chunks"))
    stored = {(ordinals[chunk_id], term): -negative for chunk_id, term, negative in rows(postgres, WEIGHTS)}
    expected = {
        (place, term): bm25.weight(count, chunks[place].length, average)
        for place, terms in enumerate(counts)
        for term, count in terms.items()
    }
    assert stored == {key: pytest.approx(weight, rel=1e-6) for key, weight in expected.items()}
    greatest = dict(rows(postgres, "SELECT term, greatest_weight FROM rag_index_terms JOIN rag_terms USING (term_id)"))
    assert greatest == {
        term: pytest.approx(max(weight for (_, name), weight in expected.items() if name == term), rel=1e-6)
        for term in greatest
    }


def test_a_chunk_without_terms_has_no_postings(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    create_session(store)
    store.commit(commit_request(kept(cache, "docs/guide.md", embedded_chunk("!!!", term_counts={}))))
    assert rows(postgres, "SELECT term_keys, weights::text FROM rag_chunk_terms") == [([], "{}/1000000000")]
    assert rows(postgres, "SELECT chunk_count, pinned_average_length FROM rag_index_layers") == [(1, 1.0)]


# --- what Postgres can't hold


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        pytest.param("a\x00b", "a\ufffdb", id="NUL"),
        pytest.param("a\ud800b", "a\ufffdb", id="a lone surrogate"),
        pytest.param("\\u0000 \\\\u0000", "\\u0000 \\\\u0000", id="an escape that stands in the text"),
    ],
)
def test_text_that_postgres_cannot_hold_is_replaced(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache, given: str, stored: str
) -> None:
    create_session(store)
    chunk = embedded_chunk(given, title=given, metadata={given: [given]}, term_counts={given: 2})
    blob = replace(prepared_blob("docs/guide.md", "text", chunks=[chunk]), notes=(Note(reason=given),))
    cache.keep([blob])
    store.commit(commit_request(blob))
    ((title, content, metadata),) = rows(postgres, "SELECT title, content, metadata FROM rag_chunks")
    assert (title, content, metadata[stored]) == (stored, stored, [stored])
    assert rows(postgres, "SELECT term FROM rag_terms") == [(stored,)]
    assert rows(postgres, "SELECT notes FROM rag_blob_cache") == [([stored],)]


def test_terms_that_become_equal_are_one_with_the_sum_of_their_counts(
    postgres: TestDatabase, cache: PostgresBlobCache
) -> None:
    kept(cache, "a.md", embedded_chunk("x", term_counts={"a\x00": 1, "b": 4, "a\ufffd": 2}))
    assert rows(postgres, "SELECT term FROM rag_terms ORDER BY 1") == [("a\ufffd",), ("b",)]
    ((counts, length),) = rows(postgres, f"SELECT {CACHED_COUNTS}, length FROM rag_chunk_cache")
    assert (sorted(counts), length) == ([3, 4], 7)


def test_a_term_longer_than_the_dictionary_takes_is_cut_at_a_character(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    chunk = embedded_chunk("text", term_counts={"я" * 300: 1, "я" * 400: 2, "short": 1})
    kept(cache, "docs/guide.md", chunk)
    assert rows(postgres, "SELECT term FROM rag_terms ORDER BY length(term)") == [("short",), ("я" * 256,)]
    assert rows(postgres, f"SELECT cardinality({CACHED_IDS}), length FROM rag_chunk_cache") == [(2, 4)]


def test_terms_are_stored_in_ascending_order_with_their_counts(
    postgres: TestDatabase, cache: PostgresBlobCache
) -> None:
    kept(cache, "first.md", embedded_chunk("x", term_counts={"zeta": 1, "alpha": 1}))
    kept(cache, "second.md", embedded_chunk("y", term_counts={"zeta": 5, "new": 6, "alpha": 7}))
    known = dict(rows(postgres, "SELECT term, term_id FROM rag_terms"))
    ((ids, counts),) = rows(
        postgres,
        f"SELECT {CACHED_IDS}, {CACHED_COUNTS} FROM rag_chunk_cache JOIN rag_blob_cache USING (blob_id)"
        " WHERE path = 'second.md'",
    )
    assert ids == sorted(known.values())
    assert dict(zip(ids, counts, strict=True)) == {known["zeta"]: 5, known["new"]: 6, known["alpha"]: 7}


def test_known_words_use_up_no_ids(postgres: TestDatabase, cache: PostgresBlobCache) -> None:
    for round_ in range(5):
        kept(cache, f"{round_}.md", embedded_chunk("x", term_counts={"alpha": 1, "beta": 1}))
    kept(cache, "last.md", embedded_chunk("x", term_counts={"gamma": 1}))
    assert max(term_id for (term_id,) in rows(postgres, "SELECT term_id FROM rag_terms")) == 3


# --- statistics


def test_the_average_length_stays_pinned_until_the_layer_is_empty(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    create_session(store)

    def pinned() -> float:
        ((length,),) = rows(postgres, "SELECT pinned_average_length FROM rag_index_layers")
        return float(length)

    store.commit(commit_request(kept(cache, "a.md", embedded_chunk("a", term_counts={"a": 10}))))
    assert pinned() == 10
    store.commit(commit_request(kept(cache, "b.md", embedded_chunk("b", term_counts={"b": 100})), seq=2))
    assert pinned() == 10
    store.commit(commit_request(seq=3, deletes=["a.md", "b.md"]))
    store.commit(commit_request(kept(cache, "c.md", embedded_chunk("c", term_counts={"c": 30})), seq=4))
    assert pinned() == 30
    assert assert_rows_agree(postgres.owner_url) == 1


@pytest.mark.parametrize("seed", range(3))
def test_statistics_agree_with_the_rows_after_any_commits(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache, seed: int
) -> None:
    chance = random.Random(seed)
    layers = [Layer.C0_SOURCE_CHUNKS, Layer.C1_SYMBOL_CATALOG, Layer.D3_SECTION_INDEX]
    words = [f"word{n}" for n in range(12)]
    session_ids = ["one", "two"]
    for session_id in session_ids:
        create_session(store, session_id)
    for seq in range(1, 13):
        paths = chance.sample([f"{n}.md" for n in range(8)], 5)
        written, removed = paths[: chance.randint(0, 3)], paths[3 : 3 + chance.randint(0, 2)]
        blobs = []
        for path in written:
            chunks = [
                embedded_chunk(
                    f"{seq} {ordinal}",
                    path=path,
                    layer=chance.choice(layers),
                    ordinal=ordinal,
                    term_counts={word: chance.randint(1, 4) for word in chance.sample(words, chance.randint(0, 6))},
                )
                for ordinal in range(chance.randint(0, 4))
            ]
            blobs.append(kept(cache, path, *chunks, content=f"{seq} {chance.random()}"))
        request = commit_request(
            *blobs,
            seq=seq,
            session_id=chance.choice(session_ids),
            deletes=removed,
            acl=chance.choice([None, ["user:a"]]),
        )
        store.commit(request)
        assert_rows_agree(postgres.owner_url)
    for number, session_id in enumerate(session_ids):
        everything = list(store.indexed_files(session_id))
        store.commit(commit_request(seq=100 + number, session_id=session_id, deletes=everything))
    assert assert_rows_agree(postgres.owner_url) == 0
    assert rows(postgres, "SELECT * FROM rag_index_terms") == []


def test_rights_reach_every_table_that_filters(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    create_session(store)
    blobs = [prepare(cache, "a.md"), prepare(cache, "b.md")]
    store.commit(commit_request(*blobs))
    before = rows(postgres, "SELECT chunk_id, content FROM rag_chunks ORDER BY 1")
    entry = file_entry("a.md", blobs[0].source, acl=["user:bob"], last_modified=datetime(2026, 1, 1, tzinfo=UTC))
    store.commit(commit_request(seq=2, rights=[entry]))
    assert set(map(str, rows(postgres, "SELECT path, acl FROM rag_chunk_vectors"))) == {
        "('a.md', ['user:bob'])",
        "('b.md', None)",
    }
    dates = "SELECT DISTINCT path, metadata->>'last_modified' FROM rag_chunks ORDER BY 1"
    assert rows(postgres, dates) == [("a.md", "2026-01-01T00:00:00+00:00"), ("b.md", None)]
    store.commit(commit_request(seq=3, rights=[file_entry("a.md", blobs[0].source)]))
    assert rows(postgres, dates) == [("a.md", None), ("b.md", None)]
    assert rows(postgres, "SELECT chunk_id, content FROM rag_chunks ORDER BY 1") == before
    assert_rows_agree(postgres.owner_url)


def test_provenance_names_the_job_and_the_generation(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    create_session(store)
    store.commit(commit_request(prepare(cache, "a.md"), prepare(cache, "b.md"), job_id="job-one"))
    store.commit(commit_request(prepare(cache, "b.md", "new"), seq=2, job_id="job-two"))
    found = rows(postgres, "SELECT path, job_id, generation, repo_id FROM rag_session_chunk_map ORDER BY path")
    assert found == [("a.md", "job-one", 1, "shop"), ("b.md", "job-two", 2, "shop")]


def test_a_refused_commit_leaves_every_table_as_it_was(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    create_session(store)
    store.commit(commit_request(prepare(cache, "a.md"), seq=2, fence=2))
    chunks = assert_rows_agree(postgres.owner_url)
    with pytest.raises(StaleFence):
        store.commit(commit_request(prepare(cache, "b.md"), seq=3, fence=1, deletes=["a.md"]))
    wrong = prepared_blob("c.md", dimension=DIMENSION * 2)
    cache.keep([wrong])
    with pytest.raises(EmbeddingModelMismatch, match="strata index"):
        store.commit(commit_request(wrong, seq=3, fence=2, deletes=["a.md"]))
    assert assert_rows_agree(postgres.owner_url) == chunks
    assert rows(postgres, "SELECT generation, fence, applied_seq FROM rag_sessions") == [(1, 2, 2)]


def test_a_vector_that_is_no_number_is_refused_by_the_database(cache: PostgresBlobCache) -> None:
    broken = embedded_chunk("x", embedding=np.full(DIMENSION, np.nan, dtype=np.float32))
    blob = prepared_blob(chunks=[broken])
    with pytest.raises(psycopg.DataError):
        cache.keep([blob])
    assert cache.present([blob.key]) == set()


@pytest.mark.parametrize("name", ["", "-begins-badly", "a b", "a/b", "я", "x" * 101, "line\n"])
def test_a_name_that_is_none_is_refused(store: PostgresSessionStore, name: str) -> None:
    with pytest.raises(InvalidRequest):
        create_session(store, name)


@pytest.mark.parametrize("project_id", ["", "x" * 201, "я" * 101])
def test_a_project_name_that_fits_no_key_is_refused(store: PostgresSessionStore, project_id: str) -> None:
    with pytest.raises(InvalidRequest):
        create_session(store, project_id=project_id)


def test_the_longest_names_fit_every_key(
    postgres: TestDatabase, store: PostgresSessionStore, cache: PostgresBlobCache
) -> None:
    """Characters at random: an index entry is compressed where it can be."""
    chance = random.Random(0)

    def letters(count: int, first: int, last: int) -> str:
        return "".join(chr(chance.randint(first, last)) for _ in range(count))

    tenant, project_id = letters(50, 0x410, 0x44F), letters(100, 0x410, 0x44F)
    model, version = letters(200, 0x61, 0x7A), letters(20, 0x61, 0x7A)
    path = checked_path(letters(MAX_PATH_BYTES // 4, 0x1F300, 0x1F5FF))
    assert len(path.encode()) == MAX_PATH_BYTES
    owner = identity(letters(400, 0x61, 0x7A), tenant=tenant)
    store.create(
        session_id="x" * 100,
        identity=owner,
        project_id=project_id,
        embedding_model=model,
        dimension=DIMENSION,
        pipeline_version=version,
    )
    key = blob_key(path, "text", tenant=tenant, repo_id=project_id, pipeline_version=version, embedding_model=model)
    blob = prepared_blob(path, "text", key=key)
    cache.keep([blob])
    store.commit(commit_request(blob, session_id="x" * 100))
    assert set(store.indexed_files("x" * 100)) == {path}
    assert assert_rows_agree(postgres.owner_url) == 1


def test_a_large_commit_is_tidied_up(
    fresh_postgres: TestDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pending list is merged and the planner knows the rows, with no right but the restricted role's."""
    database, postgres = Database(fresh_postgres.index_url), fresh_postgres
    store, cache = PostgresSessionStore(database), PostgresBlobCache(database)
    create_session(store)
    pending = """
        SELECT sum(gin_clean_pending_list(i.indexrelid)) FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        JOIN pg_am AS a ON a.oid = c.relam WHERE a.amname = 'gin' AND c.relkind = 'i'
    """
    counted = (
        "SELECT sum(reltuples) FROM pg_class WHERE relname ~ '^rag_chunk(s|_terms|_vectors)_[0-7]$' AND reltuples > 0"
    )
    blob = prepare(cache, "a.md", "one\n\ntwo\n\nthree")
    store.commit(commit_request(blob))
    assert rows(postgres, counted) == [(None,)]
    assert rows(postgres, pending)[0][0] > 0
    monkeypatch.setattr(sessions, "LARGE_COMMIT_CHUNKS", 3)
    store.commit(commit_request(prepare(cache, "b.md", "four\n\nfive\n\nsix"), seq=2))
    assert rows(postgres, pending) == [(0,)]
    assert rows(postgres, counted) == [(18,)]
    database.close()
