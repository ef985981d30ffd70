"""What every `SessionStore` promises about an index that is filled beside the live one; see `SessionStoreContract`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.errors import EmbeddingModelMismatch, NoEarlierIndex, SessionNotFound, StaleFence, TemporaryError
from strata.model.corpus import Layer, PreparedBlob
from strata.model.jobs import Counters
from strata.ports.blobs import BlobCache
from strata.ports.sessions import CommitResult, FlipRequest, NewIndex, RollBackRequest, SessionStore
from tests.support.factories import (
    DIMENSION,
    EMBEDDING_MODEL,
    PIPELINE_VERSION,
    blob_key,
    embedded_chunk,
    file_entry,
    prepared_blob,
)
from tests.support.session_store_contract import SESSION_ID, commit_request, create_session, prepare


def new_index(
    *blobs: PreparedBlob, seq: int = 2, fence: int = 2, job_id: str | None = None, **built: object
) -> NewIndex:
    new = NewIndex(
        session_id=SESSION_ID,
        job_id=job_id or f"job-{seq}",
        seq=seq,
        fence=fence,
        embedding_model=EMBEDDING_MODEL,
        dimension=DIMENSION,
        pipeline_version=PIPELINE_VERSION,
        keys=tuple(blob.key for blob in blobs),
    )
    return replace(new, **built)  # type: ignore[arg-type]


def fill(store: SessionStore, index_id: int, *blobs: PreparedBlob, fence: int = 2, job_id: str = "job-2") -> int:
    entries = [file_entry(blob.key.path, blob.source) for blob in blobs]
    return store.fill(index_id, job_id=job_id, fence=fence, entries=entries, keys={b.key.path: b.key for b in blobs})


def count(store: SessionStore, index_id: int, *, fence: int = 2, job_id: str = "job-2") -> None:
    for layer in Layer:
        store.count(index_id, job_id=job_id, fence=fence, layer=layer)


def flip(store: SessionStore, index_id: int, *, files: int, seq: int = 2, fence: int = 2) -> CommitResult:
    return store.flip(
        FlipRequest(
            session_id=SESSION_ID,
            job_id=f"job-{seq}",
            seq=seq,
            fence=fence,
            index_id=index_id,
            files=files,
            counters=Counters(indexed_files=files),
        )
    )


def rebuilt(store: SessionStore, *blobs: PreparedBlob, seq: int = 2, fence: int = 2) -> CommitResult:
    index_id = store.begin_index(new_index(*blobs, seq=seq, fence=fence))
    fill(store, index_id, *blobs, fence=fence, job_id=f"job-{seq}")
    count(store, index_id, fence=fence, job_id=f"job-{seq}")
    store.build_term_blocks(index_id)
    return flip(store, index_id, files=len(blobs), seq=seq, fence=fence)


def roll_back(store: SessionStore, *, seq: int, fence: int = 9) -> CommitResult:
    return store.roll_back(RollBackRequest(session_id=SESSION_ID, job_id=f"job-{seq}", seq=seq, fence=fence))


class NewIndexContract:
    @pytest.fixture
    def old(self, store: SessionStore, cache: BlobCache) -> PreparedBlob:
        """The one file of the live index."""
        create_session(store)
        blob = prepare(cache, "docs/old.md", "# Old\n")
        store.commit(commit_request(blob))
        return blob

    def test_what_is_filled_is_seen_after_the_flip_and_not_before(
        self, store: SessionStore, cache: BlobCache, old: PreparedBlob
    ) -> None:
        blobs = [prepare(cache, f"docs/{name}.md", f"# {name}\n") for name in "ab"]
        index_id = store.begin_index(new_index(*blobs))
        for blob in blobs:
            assert fill(store, index_id, blob) == len(blob.chunks)
            assert set(store.indexed_files(SESSION_ID)) == {"docs/old.md"}
        count(store, index_id)
        before = store.get(SESSION_ID)
        result = flip(store, index_id, files=2)
        assert set(store.indexed_files(SESSION_ID)) == {"docs/a.md", "docs/b.md"}
        assert before is not None
        assert (result.generation, result.chunks) == (before.generation + 1, sum(len(blob.chunks) for blob in blobs))
        after = store.get(SESSION_ID)
        assert after is not None
        assert (after.applied_seq, after.fence) == (2, 2)

    def test_a_session_that_held_nothing_has_nothing_to_go_back_to(self, store: SessionStore, cache: BlobCache) -> None:
        create_session(store)
        rebuilt(store, prepare(cache, "docs/a.md"))
        with pytest.raises(NoEarlierIndex):
            roll_back(store, seq=3)
        assert store.collect_indexes(SESSION_ID) == 1
        rebuilt(store, prepare(cache, "docs/b.md"), seq=3, fence=3)
        roll_back(store, seq=4)
        assert set(store.indexed_files(SESSION_ID)) == {"docs/a.md"}

    def test_a_flip_that_is_repeated_is_a_replay(
        self, store: SessionStore, cache: BlobCache, old: PreparedBlob
    ) -> None:
        blob = prepare(cache, "docs/a.md")
        index_id = store.begin_index(new_index(blob))
        fill(store, index_id, blob)
        count(store, index_id)
        assert store.applied(SESSION_ID, job_id="job-2", seq=2) is None
        first = flip(store, index_id, files=1)
        assert store.applied(SESSION_ID, job_id="job-2", seq=2) == replace(first, replayed=True)
        assert store.applied(SESSION_ID, job_id="job-3", seq=2) is None
        assert flip(store, index_id, files=1) == replace(first, replayed=True)

    def test_a_batch_that_is_repeated_changes_nothing(
        self, store: SessionStore, cache: BlobCache, old: PreparedBlob
    ) -> None:
        blob = prepare(cache, "docs/a.md")
        index_id = store.begin_index(new_index(blob))
        fill(store, index_id, blob)
        assert fill(store, index_id, blob) == 0
        count(store, index_id)
        count(store, index_id)
        assert flip(store, index_id, files=1).chunks == len(blob.chunks)

    def test_the_next_holder_goes_on_and_the_one_before_may_not(
        self, store: SessionStore, cache: BlobCache, old: PreparedBlob
    ) -> None:
        blobs = [prepare(cache, f"docs/{name}.md", f"# {name}\n") for name in "ab"]
        index_id = store.begin_index(new_index(*blobs))
        fill(store, index_id, blobs[0])
        assert store.begin_index(new_index(*blobs, fence=3)) == index_id
        with pytest.raises(StaleFence):
            fill(store, index_id, blobs[1], fence=2)
        fill(store, index_id, blobs[1], fence=3)
        with pytest.raises(StaleFence):
            count(store, index_id, fence=2)
        count(store, index_id, fence=3)
        with pytest.raises(StaleFence):
            flip(store, index_id, files=2, fence=2)
        assert flip(store, index_id, files=2, fence=3).chunks == sum(len(blob.chunks) for blob in blobs)

    def test_an_index_belongs_to_its_job(self, store: SessionStore, cache: BlobCache, old: PreparedBlob) -> None:
        blob = prepare(cache, "docs/a.md")
        index_id = store.begin_index(new_index(blob))
        with pytest.raises(StaleFence):
            fill(store, index_id, blob, job_id="job-3", fence=3)
        assert store.begin_index(new_index(blob, seq=3, fence=3)) != index_id

    @pytest.mark.parametrize(
        ("seq", "fence"), [pytest.param(1, 2, id="the seq has been applied"), pytest.param(2, 0, id="an older fence")]
    )
    def test_a_late_holder_begins_nothing(
        self, store: SessionStore, cache: BlobCache, old: PreparedBlob, seq: int, fence: int
    ) -> None:
        with pytest.raises(StaleFence):
            store.begin_index(new_index(seq=seq, fence=fence, job_id="job-9"))

    def test_a_commit_in_between_makes_the_filler_stale(
        self, store: SessionStore, cache: BlobCache, old: PreparedBlob
    ) -> None:
        blob = prepare(cache, "docs/a.md")
        index_id = store.begin_index(new_index(blob))
        store.commit(commit_request(prepare(cache, "docs/new.md"), seq=2, fence=3, job_id="job-x"))
        with pytest.raises(StaleFence):
            fill(store, index_id, blob)
        with pytest.raises(StaleFence):
            flip(store, index_id, files=1)
        assert set(store.indexed_files(SESSION_ID)) == {"docs/old.md", "docs/new.md"}

    @pytest.mark.parametrize("counted", [pytest.param(0, id="at all"), pytest.param(1, id="since its last file came")])
    def test_an_index_that_is_not_counted_does_not_go_live(
        self, store: SessionStore, cache: BlobCache, old: PreparedBlob, counted: int
    ) -> None:
        blobs = [prepare(cache, f"docs/{name}.md", f"# {name}\n") for name in "ab"]
        index_id = store.begin_index(new_index(*blobs))
        fill(store, index_id, blobs[0])
        for _ in range(counted):
            count(store, index_id)
        fill(store, index_id, blobs[1])
        with pytest.raises(TemporaryError):
            flip(store, index_id, files=2)
        assert set(store.indexed_files(SESSION_ID)) == {"docs/old.md"}
        count(store, index_id)
        assert flip(store, index_id, files=2).chunks == sum(len(blob.chunks) for blob in blobs)

    def test_an_index_that_lacks_a_file_does_not_go_live(
        self, store: SessionStore, cache: BlobCache, old: PreparedBlob
    ) -> None:
        blob = prepare(cache, "docs/a.md")
        index_id = store.begin_index(new_index(blob))
        fill(store, index_id, blob)
        with pytest.raises(TemporaryError):
            flip(store, index_id, files=2)
        assert set(store.indexed_files(SESSION_ID)) == {"docs/old.md"}

    def test_a_file_that_is_not_prepared_is_not_filled_in(
        self, store: SessionStore, cache: BlobCache, old: PreparedBlob
    ) -> None:
        prepared, missing = prepare(cache, "docs/a.md"), prepared_blob("docs/b.md", "# B\n")
        index_id = store.begin_index(new_index(prepared, missing))
        with pytest.raises(TemporaryError):
            fill(store, index_id, prepared, missing)
        assert fill(store, index_id, prepared) == len(prepared.chunks)

    def test_the_model_changes_with_the_flip(self, store: SessionStore, cache: BlobCache, old: PreparedBlob) -> None:
        key = replace(blob_key("docs/a.md", "# A\n"), embedding_model="other")
        blob = replace(
            prepared_blob("docs/a.md", "# A\n", chunks=[embedded_chunk("docs/a.md", dimension=DIMENSION * 2)]), key=key
        )
        cache.keep([blob])
        index_id = store.begin_index(new_index(blob, embedding_model="other", dimension=DIMENSION * 2))
        fill(store, index_id, blob)
        before = store.get(SESSION_ID)
        assert before is not None
        assert (before.embedding_model, before.dimension) == (EMBEDDING_MODEL, DIMENSION)
        with pytest.raises(EmbeddingModelMismatch):
            fill(store, index_id, prepare(cache, "docs/b.md"))
        count(store, index_id)
        flip(store, index_id, files=1)
        after = store.get(SESSION_ID)
        assert after is not None
        assert (after.embedding_model, after.dimension) == ("other", DIMENSION * 2)
        roll_back(store, seq=3)
        back = store.get(SESSION_ID)
        assert back is not None
        assert (back.embedding_model, back.dimension) == (EMBEDDING_MODEL, DIMENSION)

    def test_a_roll_back_and_back_again(self, store: SessionStore, cache: BlobCache, old: PreparedBlob) -> None:
        new = prepare(cache, "docs/new.md")
        rebuilt(store, new)
        result = roll_back(store, seq=3)
        assert set(store.indexed_files(SESSION_ID)) == {"docs/old.md"}
        assert (result.generation, result.chunks, result.counters) == (3, len(old.chunks), Counters())
        assert roll_back(store, seq=3) == replace(result, replayed=True)
        roll_back(store, seq=4)
        assert set(store.indexed_files(SESSION_ID)) == {"docs/new.md"}

    def test_lists_of_files_go_with_the_session_and_not_with_an_index(
        self, store: SessionStore, cache: BlobCache, old: PreparedBlob
    ) -> None:
        kept, gone, new = (prepare(cache, f"docs/{name}.md", f"# {name}\n") for name in ("kept", "gone", "new"))
        store.commit(commit_request(kept, seq=2, fence=2))
        store.commit(commit_request(gone, seq=3, fence=3, acl=["user:ann"]))
        index_id = store.begin_index(new_index(kept, new, seq=4, fence=4))
        entries = [file_entry(blob.key.path, blob.source, acl=["user:bob"]) for blob in (kept, new)]
        store.fill(index_id, job_id="job-4", fence=4, entries=entries, keys={b.key.path: b.key for b in (kept, new)})
        count(store, index_id, fence=4, job_id="job-4")
        flipping = FlipRequest(
            session_id=SESSION_ID, job_id="job-4", seq=4, fence=4, index_id=index_id, files=2, counters=Counters(),
            left_rights={"docs/gone.md": ("user:ann",)},
        )  # fmt: skip
        store.flip(flipping)
        paths = [f"docs/{name}.md" for name in ("old", "kept", "gone", "new")]
        assert store.left_rights(SESSION_ID, paths) == {"docs/gone.md": ("user:ann",)}
        for seq in (5, 6, 7):  # back, forth, and back again
            roll_back(store, seq=seq)
            live = {path: entry.acl for path, entry in store.indexed_files(SESSION_ID).items()}
            if seq == 6:
                assert live == {"docs/kept.md": ("user:bob",), "docs/new.md": ("user:bob",)}
                assert store.left_rights(SESSION_ID, paths) == {"docs/gone.md": ("user:ann",)}
            else:
                assert live == {"docs/old.md": None, "docs/kept.md": ("user:bob",), "docs/gone.md": ("user:ann",)}
                assert store.left_rights(SESSION_ID, paths) == {"docs/new.md": ("user:bob",)}

    def test_a_roll_back_needs_an_index_before(self, store: SessionStore, old: PreparedBlob) -> None:
        with pytest.raises(NoEarlierIndex):
            roll_back(store, seq=2)
        with pytest.raises(SessionNotFound):
            store.roll_back(RollBackRequest(session_id="nobody", job_id="job-2", seq=2, fence=2))

    def test_an_index_without_a_file_is_none_to_go_back_to(self, store: SessionStore, cache: BlobCache) -> None:
        create_session(store)
        first, second = prepare(cache, "a.md", "# A\n"), prepare(cache, "b.md", "# B\n")
        rebuilt(store, first, seq=1, fence=1)
        assert store.collect_indexes(SESSION_ID) == 1
        with pytest.raises(NoEarlierIndex):
            roll_back(store, seq=2)
        rebuilt(store, second, seq=2)
        roll_back(store, seq=3)
        assert set(store.indexed_files(SESSION_ID)) == {"a.md"}

    def test_a_stale_roll_back_is_refused(self, store: SessionStore, cache: BlobCache, old: PreparedBlob) -> None:
        rebuilt(store, prepare(cache, "docs/new.md"))
        with pytest.raises(StaleFence):
            roll_back(store, seq=3, fence=1)
        assert set(store.indexed_files(SESSION_ID)) == {"docs/new.md"}

    def test_changes_go_to_the_live_index_alone(self, store: SessionStore, cache: BlobCache, old: PreparedBlob) -> None:
        rebuilt(store, prepare(cache, "docs/new.md"))
        store.commit(commit_request(prepare(cache, "docs/old.md", "# Changed\n"), seq=3, fence=3))
        assert set(store.indexed_files(SESSION_ID)) == {"docs/new.md", "docs/old.md"}
        roll_back(store, seq=4)
        assert store.indexed_files(SESSION_ID)["docs/old.md"].blob_sha == old.key.blob_sha

    def test_older_and_abandoned_indexes_are_collected(
        self, store: SessionStore, cache: BlobCache, old: PreparedBlob
    ) -> None:
        first, second = (prepare(cache, f"docs/{name}.md", f"# {name}\n") for name in ("first", "second"))
        rebuilt(store, first, seq=2)
        assert store.collect_indexes(SESSION_ID) == 0
        rebuilt(store, second, seq=3, fence=3)
        abandoned = store.begin_index(new_index(first, seq=4, fence=4))
        fill(store, abandoned, first, fence=4, job_id="job-4")
        assert store.collect_indexes(SESSION_ID, but_of_job="job-4") == 1
        assert store.collect_indexes(SESSION_ID) == 1
        with pytest.raises(StaleFence):
            fill(store, abandoned, second, fence=4, job_id="job-4")
        roll_back(store, seq=5)
        assert set(store.indexed_files(SESSION_ID)) == {"docs/first.md"}

    def test_the_files_of_some_paths(self, store: SessionStore, cache: BlobCache, old: PreparedBlob) -> None:
        store.commit(commit_request(prepare(cache, "docs/b.md"), seq=2))
        assert set(store.indexed_files(SESSION_ID, ["docs/b.md", "docs/none.md"])) == {"docs/b.md"}
        assert store.indexed_files(SESSION_ID, []) == {}
