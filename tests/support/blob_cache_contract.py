"""What every `BlobCache` promises. A test class inherits it and gives the fixture `cache`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from strata.model.chat import ModelUsage
from strata.model.corpus import BlobKey, Layer, Note
from strata.ports.blobs import BlobCache
from tests.support.factories import blob_key, embedded_chunk, prepared_blob


class BlobCacheContract:
    def test_an_empty_cache_has_nothing(self, cache: BlobCache) -> None:
        assert cache.present([blob_key()]) == set()

    def test_nothing_asked_is_nothing_found(self, cache: BlobCache) -> None:
        assert cache.present([]) == set()

    def test_what_was_kept_is_present(self, cache: BlobCache) -> None:
        kept, other = prepared_blob("a.md", "# A"), prepared_blob("b.md", "# B")
        cache.keep([kept])
        assert cache.present([kept.key, other.key]) == {kept.key}

    def test_keeping_nothing_does_nothing(self, cache: BlobCache) -> None:
        cache.keep([])
        assert cache.present([blob_key()]) == set()

    def test_keeping_again_is_safe(self, cache: BlobCache) -> None:
        blobs = [prepared_blob("a.md", "# A"), prepared_blob("b.md", "# B")]
        cache.keep(blobs[:1])
        cache.keep(blobs)
        cache.keep(blobs)
        assert cache.present([blob.key for blob in blobs]) == {blob.key for blob in blobs}

    def test_one_batch_may_name_a_file_twice(self, cache: BlobCache) -> None:
        blob = prepared_blob()
        cache.keep([blob, blob])
        assert cache.present([blob.key]) == {blob.key}

    def test_a_file_without_chunks_is_kept(self, cache: BlobCache) -> None:
        blob = prepared_blob("empty.md", "\n", chunks=[])
        cache.keep([blob])
        assert cache.present([blob.key]) == {blob.key}

    def test_the_last_version_of_a_file_gives_its_vectors(self, cache: BlobCache) -> None:
        versions = [prepared_blob("a.md", f"Same.\n\nOther {number}.") for number in range(3)]
        for version in versions:
            cache.keep([version])
        new = blob_key("a.md", "Same.\n\nNew.")
        vectors = cache.earlier_vectors([new, blob_key("b.md", "Same.")])
        assert vectors.keys() == {embedded.text_key for embedded in versions[-1].chunks}
        for embedded in versions[-1].chunks:
            np.testing.assert_allclose(vectors[embedded.text_key], embedded.embedding, atol=1e-3)
            assert vectors[embedded.text_key].dtype == np.float32

    def test_a_chunk_of_a_layer_that_is_not_embedded_is_kept_without_a_vector(self, cache: BlobCache) -> None:
        chunks = [embedded_chunk("One.", layer=layer) for layer in (Layer.D2_FACT_INDEX, Layer.D3_SECTION_INDEX)]
        cache.keep([prepared_blob(chunks=chunks)])
        assert [chunk.embedding is None for chunk in chunks] == [True, False]
        assert cache.earlier_vectors([blob_key()]).keys() == {chunks[1].text_key}

    @pytest.mark.parametrize("part", ["tenant", "repo_id", "path", "pipeline_version", "embedding_model"])
    def test_vectors_are_those_of_this_file_alone(self, cache: BlobCache, part: str) -> None:
        cache.keep([prepared_blob()])
        assert cache.earlier_vectors([blob_key()])
        assert not cache.earlier_vectors([replace(blob_key(), **{part: "other"})])
        assert not cache.earlier_vectors([])

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(replace(blob_key(), tenant="rival"), id="tenant"),
            pytest.param(replace(blob_key(), repo_id="other"), id="repository"),
            pytest.param(replace(blob_key(), path="other.md"), id="path"),
            pytest.param(replace(blob_key(), blob_sha="0" * 64), id="content"),
            pytest.param(replace(blob_key(), pipeline_version="2"), id="pipeline"),
            pytest.param(replace(blob_key(), embedding_model="other"), id="embedding model"),
        ],
    )
    def test_a_key_that_differs_in_one_part_is_another_key(self, cache: BlobCache, other: BlobKey) -> None:
        cache.keep([prepared_blob()])
        assert cache.present([other]) == set()

    def test_what_was_said_about_a_file_is_found_by_its_path(self, cache: BlobCache) -> None:
        notes = (Note(reason="unreadable frontmatter", line=3), Note(reason="too large"))
        noted, silent = prepared_blob("a.md", "# A", notes=notes), prepared_blob("b.md", "# B")
        cache.keep([noted, silent])
        unknown = replace(noted.key, blob_sha="0" * 64)
        assert cache.notes([noted.key, silent.key, unknown]) == {"a.md": notes}
        assert cache.notes([]) == {}

    def test_contents_are_found_whatever_prepared_them(self, cache: BlobCache) -> None:
        kept, unknown = prepared_blob("a.md", "# A"), blob_key("b.md", "# B")
        cache.keep([kept, replace(kept, key=replace(kept.key, pipeline_version="2"))])
        asked = replace(kept.key, embedding_model="a newer one")
        rival = replace(kept.key, tenant="rival")
        assert cache.contents([unknown, asked, rival]) == {asked: b"# A"}
        assert cache.contents([]) == {}

    def test_what_chat_models_used_is_added_up_for_what_was_kept_since(self, cache: BlobCache) -> None:
        before = datetime.now(UTC) - timedelta(minutes=1)
        usage = ModelUsage(calls=2, input_tokens=3_000_000_000, output_tokens=40)
        blobs = [replace(prepared_blob(path, "# A"), usage=usage) for path in ("a.md", "b.md", "c.md")]
        cache.keep(blobs)
        cache.keep([replace(blobs[0], usage=replace(usage, calls=9))])  # it is there: nothing was paid again
        keys = [blobs[0].key, blobs[1].key, blob_key("unknown.md")]
        assert cache.usage(keys[:2], since=before) == usage + usage
        assert cache.usage([keys[0], keys[2]], since=before) == usage
        assert cache.usage(keys[:1], since=before + timedelta(minutes=2)) == ModelUsage()
        assert cache.usage([], since=before) == ModelUsage()
