"""What every `SessionStore` promises. A test class inherits it and gives the fixtures `store` and `cache`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from strata.errors import (
    EmbeddingModelMismatch,
    SessionNameTaken,
    SessionNotFound,
    StaleFence,
    StrataError,
    TemporaryError,
)
from strata.model.access import Identity, Session
from strata.model.corpus import FileEntry, PreparedBlob
from strata.model.jobs import Counters
from strata.ports.blobs import BlobCache
from strata.ports.sessions import CommitRequest, SessionStore
from tests.support.factories import (
    DIMENSION,
    EMBEDDING_MODEL,
    PIPELINE_VERSION,
    REPO_ID,
    file_entry,
    identity,
    prepared_blob,
)

SESSION_ID = "shop-main"
NO_COUNTERS = Counters()


def create_session(
    store: SessionStore,
    session_id: str = SESSION_ID,
    owner: Identity | None = None,
    *,
    readers: Sequence[str] = (),
    project_id: str = REPO_ID,
    dimension: int = DIMENSION,
) -> Session:
    session, _ = store.create(
        session_id=session_id,
        identity=owner or identity(),
        project_id=project_id,
        embedding_model=EMBEDDING_MODEL,
        dimension=dimension,
        pipeline_version=PIPELINE_VERSION,
        readers=readers,
    )
    return session


def commit_request(
    *blobs: PreparedBlob,
    seq: int = 1,
    fence: int = 1,
    session_id: str = SESSION_ID,
    job_id: str | None = None,
    acl: Sequence[str] | None = None,
    rights: Sequence[FileEntry] = (),
    deletes: Sequence[str] = (),
    counters: Counters = NO_COUNTERS,
) -> CommitRequest:
    """A commit that writes these prepared files."""
    entries = [file_entry(blob.key.path, blob.source, acl=acl) for blob in blobs]
    return CommitRequest(
        session_id=session_id,
        job_id=job_id or f"job-{seq}",
        seq=seq,
        fence=fence,
        upserts=tuple(entries),
        keys={blob.key.path: blob.key for blob in blobs},
        rights=tuple(rights),
        deletes=tuple(deletes),
        counters=counters,
    )


def prepare(
    cache: BlobCache, path: str = "docs/guide.md", content: str = "# Guide\n\nOne paragraph.\n"
) -> PreparedBlob:
    blob = prepared_blob(path, content)
    cache.keep([blob])
    return blob


class SessionStoreContract:
    # --- sessions

    def test_a_new_session_is_empty(self, store: SessionStore) -> None:
        session, new = store.create(
            session_id=SESSION_ID,
            identity=identity("ann"),
            project_id="shop",
            embedding_model="minilm",
            dimension=384,
            pipeline_version="1",
            readers=["group:dev"],
        )
        assert new
        assert session == Session(
            session_id=SESSION_ID,
            tenant="acme",
            project_id="shop",
            repo_id="shop",
            owner="user:ann",
            readers=("group:dev",),
            generation=0,
            applied_seq=0,
            fence=0,
            embedding_model="minilm",
            dimension=384,
            pipeline_version="1",
        )
        assert store.get(SESSION_ID) == session
        assert store.indexed_files(SESSION_ID) == {}

    def test_its_owner_gets_an_existing_session_as_it_is(self, store: SessionStore) -> None:
        created = create_session(store, readers=["group:dev"])
        again, new = store.create(
            session_id=SESSION_ID,
            identity=identity(),
            project_id="other",
            embedding_model="other",
            dimension=3,
            pipeline_version="9",
        )
        assert (again, new) == (created, False)

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(identity("bob"), id="somebody else"),
            pytest.param(identity("bob", groups=["dev"]), id="a reader"),
            pytest.param(identity("ann", tenant="rival"), id="the same name in another tenant"),
        ],
    )
    def test_a_name_is_taken_once(self, store: SessionStore, other: Identity) -> None:
        created = create_session(store, readers=["group:dev"])
        with pytest.raises(SessionNameTaken):
            create_session(store, owner=other)
        assert store.get(SESSION_ID) == created

    def test_an_unknown_session_is_none(self, store: SessionStore) -> None:
        assert store.get("nobody-made-this") is None
        assert store.indexed_files("nobody-made-this") == {}

    def test_a_caller_lists_what_it_owns_or_reads(self, store: SessionStore) -> None:
        create_session(store, "b-own")
        create_session(store, "a-shared", identity("bob"), readers=["group:dev"])
        create_session(store, "c-personal", identity("bob"), readers=["user:ann"])
        create_session(store, "d-foreign", identity("bob"), readers=["group:sales"])
        create_session(store, "e-rival", identity("ann", tenant="rival"), readers=["group:dev", "user:ann"])
        found = store.list_readable(identity("ann", groups=["dev"]))
        assert [session.session_id for session in found] == ["a-shared", "b-own", "c-personal"]

    # --- commits: what the index holds afterwards

    def test_a_commit_makes_files_visible_and_raises_the_generation(
        self, store: SessionStore, cache: BlobCache
    ) -> None:
        create_session(store)
        blob = prepare(cache, "docs/guide.md", "# Guide\n\nOne paragraph.\n")
        result = store.commit(commit_request(blob, seq=3, fence=7, counters=Counters(indexed_files=1)))
        assert (result.generation, result.chunks, result.replayed) == (1, 2, False)
        assert result.counters == Counters(indexed_files=1)
        session = store.get(SESSION_ID)
        assert session is not None
        assert (session.generation, session.applied_seq, session.fence) == (1, 3, 7)
        assert store.indexed_files(SESSION_ID) == {"docs/guide.md": file_entry("docs/guide.md", blob.source)}

    @pytest.mark.parametrize(
        ("acl", "last_modified"),
        [
            pytest.param(None, None, id="nothing said"),
            pytest.param((), datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), id="for nobody"),
            pytest.param(("group:dev", 'user:o"k, {x}'), datetime(1999, 12, 31, tzinfo=UTC), id="for two"),
            pytest.param(("user:ann",), datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=3))), id="another zone"),
        ],
    )
    def test_a_file_comes_back_as_it_was_given(
        self, store: SessionStore, cache: BlobCache, acl: tuple[str, ...] | None, last_modified: datetime | None
    ) -> None:
        create_session(store)
        blob = prepare(cache)
        entry = file_entry(blob.key.path, blob.source, acl=acl, last_modified=last_modified)
        store.commit(replace(commit_request(blob), upserts=(entry,)))
        assert store.indexed_files(SESSION_ID) == {entry.path: entry}

    def test_the_lists_of_files_that_left_are_kept_until_they_are_written_again(
        self, store: SessionStore, cache: BlobCache
    ) -> None:
        create_session(store)
        create_session(store, "other")
        blob = prepare(cache, "a.md")
        store.commit(commit_request(blob, acl=["user:ann"]))
        left = {"a.md": ("user:ann",), "never-there.md": ()}
        store.commit(replace(commit_request(seq=2, deletes=["a.md"]), left_rights=left))
        assert store.left_rights(SESSION_ID, ["a.md", "never-there.md", "c.md"]) == left
        assert (store.left_rights(SESSION_ID, []), store.left_rights("other", ["a.md"])) == ({}, {})
        store.commit(replace(commit_request(seq=3), left_rights={"never-there.md": ("user:bob",)}))
        store.commit(commit_request(blob, seq=4))
        assert store.left_rights(SESSION_ID, [*left]) == {"never-there.md": ("user:bob",)}
        opened = {"never-there.md": None, "a.md": None, "new.md": ("user:ann",)}
        store.commit(replace(commit_request(seq=5, deletes=["a.md"]), left_rights=opened))
        assert store.left_rights(SESSION_ID, [*left, "new.md"]) == {"new.md": ("user:ann",)}
        store.delete(SESSION_ID, 99)
        assert store.left_rights(SESSION_ID, [*left]) == {}

    def test_a_file_without_chunks_is_indexed(self, store: SessionStore, cache: BlobCache) -> None:
        create_session(store)
        blob = prepared_blob("empty.md", "\n", chunks=[])
        cache.keep([blob])
        assert store.commit(commit_request(blob)).chunks == 0
        assert set(store.indexed_files(SESSION_ID)) == {"empty.md"}

    def test_a_later_version_takes_the_place_of_the_earlier(self, store: SessionStore, cache: BlobCache) -> None:
        create_session(store)
        store.commit(commit_request(prepare(cache, "a.md", "old"), prepare(cache, "b.md", "stays")))
        new = prepare(cache, "a.md", "new\n\nlonger")
        assert store.commit(commit_request(new, seq=2)).chunks == 3  # two new ones, and one of the file that stays
        files = store.indexed_files(SESSION_ID)
        assert files["a.md"].blob_sha == new.key.blob_sha
        assert set(files) == {"a.md", "b.md"}

    def test_a_deleted_file_is_gone(self, store: SessionStore, cache: BlobCache) -> None:
        create_session(store)
        store.commit(commit_request(prepare(cache, "a.md"), prepare(cache, "b.md")))
        result = store.commit(commit_request(seq=2, deletes=["a.md", "never-there.md"]))
        assert (result.generation, result.chunks) == (2, 2)  # of the file that stays
        assert set(store.indexed_files(SESSION_ID)) == {"b.md"}

    def test_rights_change_without_content(self, store: SessionStore, cache: BlobCache) -> None:
        create_session(store)
        blob = prepare(cache)
        store.commit(commit_request(blob))
        entry = file_entry(
            blob.key.path, blob.source, acl=["group:dev"], last_modified=datetime(2026, 1, 1, tzinfo=UTC)
        )
        result = store.commit(commit_request(seq=2, rights=[entry, file_entry("never-there.md")]))
        assert (result.generation, result.chunks) == (2, 2)
        assert store.indexed_files(SESSION_ID) == {entry.path: entry}

    def test_sessions_do_not_touch_each_other(self, store: SessionStore, cache: BlobCache) -> None:
        create_session(store, "one")
        create_session(store, "two")
        blob = prepare(cache)
        store.commit(commit_request(blob, session_id="one"))
        store.commit(commit_request(blob, session_id="two"))
        store.commit(commit_request(seq=2, session_id="one", deletes=[blob.key.path]))
        assert store.indexed_files("one") == {}
        assert set(store.indexed_files("two")) == {blob.key.path}

    # --- commits: order and fence

    def test_a_replay_of_the_last_job_does_nothing_and_answers_as_then(
        self, store: SessionStore, cache: BlobCache
    ) -> None:
        create_session(store)
        request = commit_request(prepare(cache), seq=4, fence=9, counters=Counters(indexed_files=1, skipped_files=2))
        first = store.commit(request)
        before = store.get(SESSION_ID)
        changed = replace(request, counters=Counters(indexed_files=5), upserts=(), deletes=(request.upserts[0].path,))
        for fence in (9, 10, 8):
            assert store.commit(replace(changed, fence=fence)) == replace(first, replayed=True)
        assert store.get(SESSION_ID) == before
        assert set(store.indexed_files(SESSION_ID)) == {request.upserts[0].path}

    @pytest.mark.parametrize(
        ("seq", "fence"),
        [
            pytest.param(6, 19, id="an older fence"),
            pytest.param(5, 20, id="a seq that another job has"),
            pytest.param(4, 21, id="an older seq"),
        ],
    )
    def test_a_late_commit_is_refused_and_writes_nothing(
        self, store: SessionStore, cache: BlobCache, seq: int, fence: int
    ) -> None:
        create_session(store)
        store.commit(commit_request(prepare(cache, "a.md"), seq=5, fence=20))
        before = (store.get(SESSION_ID), store.indexed_files(SESSION_ID))
        with pytest.raises(StaleFence):
            store.commit(commit_request(prepare(cache, "b.md"), seq=seq, fence=fence, job_id="job-late"))
        assert (store.get(SESSION_ID), store.indexed_files(SESSION_ID)) == before

    def test_one_holder_commits_many_jobs(self, store: SessionStore, cache: BlobCache) -> None:
        create_session(store)
        for seq in (1, 2, 3):
            store.commit(commit_request(prepare(cache, f"{seq}.md"), seq=seq, fence=5))
        assert set(store.indexed_files(SESSION_ID)) == {"1.md", "2.md", "3.md"}

    # --- commits: what is refused

    def test_a_commit_needs_its_session(self, store: SessionStore, cache: BlobCache) -> None:
        with pytest.raises(SessionNotFound):
            store.commit(commit_request(prepare(cache)))

    def test_a_file_that_is_not_prepared_refuses_the_commit(self, store: SessionStore, cache: BlobCache) -> None:
        create_session(store)
        with pytest.raises(TemporaryError, match=r"lost\.md"):
            store.commit(commit_request(prepare(cache, "a.md"), prepared_blob("lost.md")))
        assert store.indexed_files(SESSION_ID) == {}

    @pytest.mark.parametrize(
        "changed",
        [
            pytest.param({"embedding_model": "other"}, id="another model"),
            pytest.param({"pipeline_version": "2"}, id="another pipeline"),
        ],
    )
    def test_what_another_model_or_pipeline_made_is_refused(
        self, store: SessionStore, cache: BlobCache, changed: dict[str, str]
    ) -> None:
        create_session(store)
        blob = prepared_blob()
        blob = replace(blob, key=replace(blob.key, **changed))
        cache.keep([blob])
        with pytest.raises(EmbeddingModelMismatch):
            store.commit(commit_request(blob))
        assert store.indexed_files(SESSION_ID) == {}

    def test_vectors_of_another_dimension_are_refused(self, store: SessionStore, cache: BlobCache) -> None:
        create_session(store)
        blob = prepared_blob(dimension=DIMENSION + 1)
        cache.keep([blob])
        with pytest.raises(EmbeddingModelMismatch):
            store.commit(commit_request(blob))
        assert store.indexed_files(SESSION_ID) == {}

    @pytest.mark.parametrize("changed", [{"tenant": "rival"}, {"repo_id": "other"}, {"blob_sha": "0" * 64}])
    def test_a_key_of_something_else_is_a_fault(
        self, store: SessionStore, cache: BlobCache, changed: dict[str, str]
    ) -> None:
        create_session(store)
        blob = prepare(cache)
        request = commit_request(blob)
        with pytest.raises(ValueError, match="does not belong"):
            store.commit(replace(request, keys={blob.key.path: replace(blob.key, **changed)}))

    @pytest.mark.parametrize("kind", ["deletes", "rights", "upserts"])
    def test_a_path_named_twice_is_a_fault(self, store: SessionStore, cache: BlobCache, kind: str) -> None:
        create_session(store)
        request = commit_request(prepare(cache))
        entry = request.upserts[0]
        twice: dict[str, Any] = {"deletes": (entry.path,), "rights": (entry,), "upserts": (entry, entry)}
        with pytest.raises(ValueError, match="once"):
            store.commit(replace(request, **{kind: twice[kind]}))
        assert store.indexed_files(SESSION_ID) == {}

    def test_a_refusal_is_a_sentence_for_a_person(self, store: SessionStore, cache: BlobCache) -> None:
        create_session(store)
        blob = prepared_blob(dimension=DIMENSION + 1)
        cache.keep([blob])
        with pytest.raises(StrataError) as caught:
            store.commit(commit_request(blob))
        assert caught.value.message.endswith((".", "`."))

    # --- claim, readers, deletion ---

    def test_a_claim_refuses_every_older_fence(self, store: SessionStore, cache: BlobCache) -> None:
        create_session(store)
        cache.keep([blob := prepared_blob()])
        store.claim(SESSION_ID, 7)
        store.claim(SESSION_ID, 7)
        with pytest.raises(StaleFence):
            store.claim(SESSION_ID, 6)
        with pytest.raises(StaleFence):
            store.commit(commit_request(blob, seq=1, fence=6))
        assert store.commit(commit_request(blob, seq=1, fence=7)).generation == 1
        with pytest.raises(SessionNotFound):
            store.claim("unknown", 1)

    def test_readers_are_replaced(self, store: SessionStore) -> None:
        create_session(store, readers=["user:bob"])
        assert store.set_readers(SESSION_ID, ["group:b", "group:a", "group:b"]).readers == ("group:a", "group:b")
        found = store.get(SESSION_ID)
        assert found is not None
        assert found.readers == ("group:a", "group:b")
        with pytest.raises(SessionNotFound):
            store.set_readers("unknown", [])

    def test_a_deleted_session_is_gone_and_a_later_one_goes_on_with_its_numbers(
        self, store: SessionStore, cache: BlobCache
    ) -> None:
        create_session(store)
        cache.keep([blob := prepared_blob()])
        store.commit(commit_request(blob, seq=3, fence=5))
        assert not store.delete(SESSION_ID, 5)  # not older than this: another session's deletion
        assert store.delete(SESSION_ID, 8)
        assert store.delete(SESSION_ID, 9)
        assert (store.get(SESSION_ID), store.list_readable(identity()), store.indexed_files(SESSION_ID)) == (
            None,
            [],
            {},
        )
        with pytest.raises(SessionNotFound):
            store.commit(commit_request(blob, seq=4, fence=99))
        with pytest.raises(SessionNameTaken):
            create_session(store)
        for _ in range(10):
            if not store.purge(SESSION_ID):
                break
        else:
            pytest.fail("the purge does not come to its end")
        assert cache.present([blob.key]) == set()
        store.end_purge(SESSION_ID)
        store.end_purge(SESSION_ID)
        again = create_session(store)
        assert (again.generation, again.applied_seq, again.fence) == (2, 3, 9)
        cache.keep([blob])
        with pytest.raises(StaleFence):
            store.commit(commit_request(blob, seq=4, fence=8))
        assert not store.delete(SESSION_ID, 9)
        assert store.commit(commit_request(blob, seq=4, fence=10)).generation == 3

    def test_the_cache_stays_as_long_as_a_session_of_the_repository_does(
        self, store: SessionStore, cache: BlobCache
    ) -> None:
        create_session(store)
        create_session(store, "shop-other")
        cache.keep([blob := prepared_blob()])
        store.delete(SESSION_ID, 1)
        while store.purge(SESSION_ID):
            pass
        assert cache.present([blob.key]) == {blob.key}
