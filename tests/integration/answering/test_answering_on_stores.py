"""Questions answered from Postgres and the DynamoDB cache, by the adapters that are deployed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from strata.answering.answer import Answerer
from strata.answering.cache_gate import CacheGate
from strata.answering.events import DoneEvent, MetaEvent
from strata.errors import SessionNotFound
from strata.model.access import Identity
from strata.model.asking import Answer
from strata.providers.extractive.generator import ExtractiveGenerator
from strata.retrieval.retrieve import Retriever
from strata.storage.clock import SystemClock
from strata.storage.dynamodb.client import Table
from strata.storage.dynamodb.query_cache import DynamoQueryCache
from tests.support import factories
from tests.support.asking import EMBEDDER, SESSION_ID, question
from tests.support.postgres import TestDatabase
from tests.support.search_rows import SearchRows, TextFile

BOB = factories.identity("bob")


@pytest.fixture
def rows(postgres: TestDatabase) -> Iterator[SearchRows]:
    made = SearchRows(postgres)
    made.session(SESSION_ID, readers=["user:bob"], dimension=EMBEDDER.dimension, embedding_model=EMBEDDER.model_id)
    yield made
    made.close()


@pytest.fixture
def answerer(rows: SearchRows, dynamodb: Any, cache_table: str) -> Answerer:
    cache = DynamoQueryCache(table=Table(client=dynamodb, name=cache_table), clock=SystemClock())
    return Answerer(
        gate=CacheGate(cache=cache, search=rows.search, retrieval_version="test", ttl_s=600),
        retriever=Retriever(search=rows.search, embedder=EMBEDDER, depth=50),
        search=rows.search,
        generator=ExtractiveGenerator(),
        counter=EMBEDDER,
        max_context_tokens=2_000,
    )


def text_file(path: str, text: str, acl: tuple[str, ...] | None = None) -> TextFile:
    return TextFile(path, [text], acl=acl, embeddings=[EMBEDDER.embed_query(text)])


def asked(answerer: Answerer, identity: Identity | None = None) -> tuple[Answer, MetaEvent]:
    meta, *_, done = answerer.stream(question("How many seconds does a lease last?", identity=identity))
    assert isinstance(meta, MetaEvent)
    assert isinstance(done, DoneEvent)
    return done.answer, meta


def test_an_answer_is_cited_then_cached_then_made_anew_after_a_commit(rows: SearchRows, answerer: Answerer) -> None:
    rows.commit(SESSION_ID, [text_file("docs/lease.md", "A lease lasts 60 seconds.")])
    first, miss = asked(answerer)
    again, hit = asked(answerer)
    assert (miss.cache, hit.cache) == ("miss", "hit")
    assert first == again
    assert [(citation.path, citation.quote) for citation in first.citations] == [
        ("docs/lease.md", "A lease lasts 60 seconds.")
    ]
    rows.commit(SESSION_ID, [text_file("docs/lease.md", "A lease lasts 90 seconds.")])
    changed, meta = asked(answerer)
    assert (meta.cache, meta.generation) == ("miss", miss.generation + 1)
    assert "90 seconds" in changed.text


def test_a_deleted_file_answers_no_more_and_its_rights_count_at_once(rows: SearchRows, answerer: Answerer) -> None:
    rows.commit(
        SESSION_ID,
        [
            text_file("docs/lease.md", "A lease lasts 60 seconds."),
            text_file("docs/secret.md", "The secret lease lasts 77 seconds.", acl=("user:ann",)),
        ],
    )
    mine, _ = asked(answerer)
    theirs, meta = asked(answerer, BOB)
    assert "77" in mine.text
    assert "77" not in theirs.text
    assert meta.cache == "miss"
    rows.commit(SESSION_ID, deletes=["docs/lease.md", "docs/secret.md"])
    assert asked(answerer)[0].abstained
    with pytest.raises(SessionNotFound):
        asked(answerer, factories.identity("eve"))


def test_readers_see_one_state_or_the_next_while_commits_replace_it(rows: SearchRows, answerer: Answerer) -> None:
    def state(seconds: int) -> list[TextFile]:
        return [text_file(f"docs/{name}.md", f"A lease of {name} lasts {seconds} seconds.") for name in ("a", "b")]

    rows.commit(SESSION_ID, state(10))
    answers: list[Answer] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            answers.append(asked(answerer)[0])

    reader = threading.Thread(target=read)
    reader.start()
    for seconds in range(11, 21):
        rows.commit(SESSION_ID, state(seconds))
    stop.set()
    reader.join(timeout=60)
    assert answers
    for answer in answers:
        assert not answer.abstained
        seen = {citation.quote.rsplit(" ", 2)[1] for citation in answer.citations}
        assert len(seen) == 1, answer
