"""Nobody finds what they may not read, by any entry point; the second wall holds where the first is taken away."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import psycopg
import pytest
from psycopg import sql

from strata.errors import SessionNotFound
from strata.model.access import Identity
from strata.model.asking import Filter
from strata.model.corpus import Layer
from strata.retrieval.retrieve import Retriever
from strata.retrieval.statements import conditions
from strata.retrieval.statements import search as search_statements
from strata.retrieval.statements.files import index_statement, sources_statement
from strata.retrieval.statements.rows import CANDIDATE_COLUMNS, SESSION_COLUMNS, Statement
from strata.retrieval.statements.search import search_statement
from tests.support.factories import EMBEDDING_MODEL, identity, unit_vector
from tests.support.search_rows import SearchRows, TextFile

ANN, BOB = identity("ann"), identity("bob", groups=["red"])


@pytest.fixture
def private(rows: SearchRows) -> SearchRows:
    """A session of Ann's that nobody else reads, and one that the red group reads in part."""
    rows.session("private", ANN)
    rows.commit("private", [TextFile("a/secret.py", ["webhook secret"], layer=Layer.C0_SOURCE_CHUNKS)])
    rows.session("shared", ANN, readers=["group:red"])
    rows.commit(
        "shared",
        [
            TextFile("a/open.py", ["webhook open"], layer=Layer.C0_SOURCE_CHUNKS),
            TextFile("a/red.py", ["webhook red"], layer=Layer.C0_SOURCE_CHUNKS, acl=("group:red",)),
            TextFile("a/ann.py", ["webhook ann"], layer=Layer.C0_SOURCE_CHUNKS, acl=("user:ann",)),
            TextFile("a/none.py", ["webhook none"], layer=Layer.C0_SOURCE_CHUNKS, acl=()),
        ],
    )
    return rows


@dataclass(frozen=True)
class UnitEmbedder:
    model_id: str = EMBEDDING_MODEL
    dimension: int = 8
    max_tokens: int = 100
    languages: frozenset[str] = frozenset()

    def count(self, texts: list[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def embed_query(self, text: str) -> object:
        return unit_vector(text)


def retriever(rows: SearchRows) -> Retriever:
    return Retriever(search=rows.search, embedder=UnitEmbedder(), depth=50)  # type: ignore[arg-type]


def paths_by_entry_point(rows: SearchRows, session_id: str, caller: Identity) -> dict[str, set[str]]:
    question = rows.request(session_id, "webhook", identity=caller, filter=Filter(path_prefixes=("a/",))).question
    found = retriever(rows)
    paths = ["a/secret.py", "a/open.py", "a/red.py", "a/ann.py", "a/none.py"]
    return {
        "retrieve": {row.path for row in found.retrieve(question).candidates},
        "lexical": {row.path for row in found.retrieve_lexical_code(question)},
        "files": {row.path for row in found.retrieve_exact_files(session_id, caller, paths)},
        "pages": {file.path for file in found.file_page(session_id, caller)},
    }


def everywhere(paths: set[str]) -> dict[str, set[str]]:
    return {"retrieve": paths, "lexical": paths, "files": paths, "pages": paths}


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        pytest.param(ANN, {"a/open.py", "a/ann.py"}, id="the owner reads what is open or names her"),
        pytest.param(BOB, {"a/open.py", "a/red.py"}, id="a reader of the group"),
    ],
)
def test_every_entry_point_shows_the_same_allowed_files(
    private: SearchRows, caller: Identity, expected: set[str]
) -> None:
    assert paths_by_entry_point(private, "shared", caller) == everywhere(expected)


@pytest.mark.parametrize("session_id", ["private", "unheard-of"])
def test_a_foreign_session_looks_like_none_at_all(private: SearchRows, session_id: str) -> None:
    request = private.request(session_id, "webhook secret", identity=BOB)
    messages = []
    for call in (
        lambda: private.search.search(request),
        lambda: retriever(private).retrieve_lexical_code(request.question),
        lambda: private.search.files(session_id, BOB, ["a/secret.py"], limit=10),
        lambda: private.search.generation(session_id, BOB),
    ):
        with pytest.raises(SessionNotFound) as caught:
            call()
        messages.append(caught.value.message)
    assert set(messages) == {SessionNotFound().message}


@pytest.mark.parametrize("hidden", ["ann", "none", "a/ann.py", '"webhook ann"', "ann.py none.py"])
def test_a_word_or_name_of_hidden_files_alone_changes_nothing(private: SearchRows, hidden: str) -> None:
    """What a search of `webhook` beside it finds is, figures included, what it finds beside words that nobody wrote."""

    def found(beside: str) -> object:
        request = private.request("shared", f"webhook {beside}", identity=BOB)
        vector = unit_vector("webhook")
        asked = replace(request, embedding=vector, question=replace(request.question, explain=True), depth=2)
        return private.search.search(replace(asked, question=replace(asked.question, text="webhook")))

    assert found(hidden) == found(hidden.replace("ann", "qqq").replace("none", "zzz"))


def test_sources_come_for_readable_chunks_of_this_session_only(private: SearchRows) -> None:
    ids = {row.chunk.path: row.chunk_id for rows in private.twin.chunks.values() for row in rows}
    everything = list(ids.values())
    assert private.search.sources("shared", BOB, everything) == {
        ids["a/open.py"]: "webhook open",
        ids["a/red.py"]: "webhook red",
    }
    assert private.search.sources("private", BOB, everything) == {}
    assert private.search.sources("private", ANN, everything) == {ids["a/secret.py"]: "webhook secret"}


def test_taking_a_right_away_takes_effect_at_once(private: SearchRows) -> None:
    closed = TextFile("a/open.py", ["webhook open"], layer=Layer.C0_SOURCE_CHUNKS, acl=("user:ann",))
    private.commit("shared", rights=[closed])
    assert paths_by_entry_point(private, "shared", BOB) == everywhere({"a/red.py"})


def without_first_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every condition on tenant, owner, readers and acl out of the statements."""

    monkeypatch.setattr(conditions, "open_to_caller", lambda row: sql.SQL("true"))
    uncached = search_statements._search_text.__wrapped__  # not one from before
    monkeypatch.setattr(search_statements, "_search_text", uncached)
    session = conditions.SESSION.as_string()
    start = session.index("AND s.tenant")
    end = session.index(") AS found")
    monkeypatch.setattr(conditions, "SESSION", sql.SQL(session[:start] + session[end:]))  # type: ignore[arg-type]


def run(url: str, session_id: str, caller: Identity, statement: Statement) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT set_config('strata.tenant', %s, true), set_config('strata.principals', %s, true)",
            [caller.tenant, json.dumps(caller.principals)],
        )
        index = index_statement(session_id)
        (index_id,) = connection.execute(index.text, index.parameters).fetchone() or (0,)
        return connection.execute(statement.text, statement.on(index_id)).fetchall()


def test_row_level_security_hides_the_text_without_the_explicit_filter(
    private: SearchRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_first_wall(monkeypatch)
    path = len(SESSION_COLUMNS) + CANDIDATE_COLUMNS.index("path")

    def found(url: str, session_id: str) -> set[object]:
        statement = search_statement(private.request(session_id, "webhook", identity=BOB))
        return {row[path] for row in run(url, session_id, BOB, statement)}

    assert found(private.database.query_url, "shared") == {"a/open.py", "a/red.py"}
    assert found(private.database.query_url, "private") == set()
    # The first wall is really gone: one whom the second does not bind sees it all.
    assert found(private.database.owner_url, "shared") == {"a/open.py", "a/red.py", "a/ann.py", "a/none.py"}
    assert found(private.database.owner_url, "private") == {"a/secret.py"}


def test_row_level_security_hides_the_files_without_the_explicit_filter(
    private: SearchRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_first_wall(monkeypatch)
    everything = [row.chunk_id for rows in private.twin.chunks.values() for row in rows]

    def found(url: str, session_id: str) -> set[object]:
        return {row[0] for row in run(url, session_id, BOB, sources_statement(session_id, BOB, everything))}

    assert found(private.database.query_url, "shared") == {"a/open.py", "a/red.py"}
    assert found(private.database.query_url, "private") == set()
    assert found(private.database.owner_url, "private") == {"a/secret.py"}


LOCAL_SETTINGS = """
    SELECT pg_backend_pid(), current_setting('strata.tenant', true), current_setting('strata.principals', true),
           current_setting('jit'), current_setting('transaction_read_only'),
           current_setting('statement_timeout'), current_setting('plan_cache_mode')
"""
PREPARED = "SELECT string_agg(statement, ' ') FROM pg_prepared_statements"


def test_nothing_of_one_caller_stays_on_the_connection_for_the_next(private: SearchRows) -> None:
    def settings() -> list[object]:
        row = private.query.transact(lambda connection: connection.execute(LOCAL_SETTINGS).fetchone())
        assert row is not None
        return [value or None for value in row]

    before = settings()
    private.search.search(private.request("private", "webhook", identity=ANN))
    assert settings() == before
    with pytest.raises(SessionNotFound):
        private.search.search(private.request("private", "webhook", identity=BOB))
    assert settings() == before


def test_what_stays_prepared_on_a_connection_holds_nothing_of_a_caller(private: SearchRows) -> None:
    private.search.search(private.request("private", "webhook", identity=ANN))
    row = private.query.transact(lambda connection: connection.execute(PREPARED).fetchone())
    assert row is not None
    assert "rag_chunk_terms" in row[0]
    assert not any(text in row[0] for text in ("private", "webhook", *ANN.principals))
