from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from strata.errors import EmbedderRejected, EmbedderUnavailable, LockLost
from strata.indexing import prepare as prepare_module
from strata.indexing.chunking.chunker import Chunker
from strata.indexing.prepare import (
    BATCH_FILES,
    EMBED_CHUNKS,
    MOST_LINKS,
    Prepared,
    Preparer,
    embed,
    parse_file,
)
from strata.model.corpus import BlobKey, Layer, SourceFile, Vectors
from strata.providers.hashed.embedder import HashedEmbedder
from strata.retrieval.analyser import analyse
from strata.retrieval.filters import DEFAULT_LAYERS
from tests.support.factories import blob_key, chunk, source_file
from tests.support.fakes import FakeBlobCache


class Embedder(HashedEmbedder):
    """The hashed embedder, with every call on record and an answer that a test may spoil."""

    def __init__(self, spoil: Callable[[Sequence[str], Vectors], Any] = lambda texts, vectors: vectors) -> None:
        object.__setattr__(self, "calls", [])
        object.__setattr__(self, "spoil", spoil)

    calls: list[int]
    spoil: Callable[[Sequence[str], Vectors], Any]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        assert all(text.strip() for text in texts)
        self.calls.append(len(texts))
        answer: Vectors = self.spoil(texts, super().embed_documents(texts))
        return answer


def refusing(word: str, error: type[Exception] = EmbedderRejected) -> Embedder:
    def spoil(texts: Sequence[str], vectors: Vectors) -> Vectors:
        if any(word in text for text in texts):
            raise error("HTTP 400: input too long")
        return vectors

    return Embedder(spoil)


def keyed(files: dict[str, str | bytes]) -> list[tuple[BlobKey, SourceFile]]:
    return [(blob_key(path, content), source_file(path, content)) for path, content in files.items()]


def prepare(
    files: dict[str, str | bytes], embedder: Embedder | None = None, cache: FakeBlobCache | None = None
) -> tuple[Prepared, FakeBlobCache]:
    embedder, cache = embedder or Embedder(), cache or FakeBlobCache()
    done = Prepared()
    preparer = Preparer(cache=cache, embedder=embedder, chunker=Chunker(counter=embedder))
    preparer.prepare(keyed(files), done, lambda: None)
    return done, cache


def kept_paths(cache: FakeBlobCache) -> list[str]:
    return sorted(key.path for key in cache.blobs)


def test_a_file_is_kept_with_bytes_chunks_vectors_and_terms() -> None:
    content = "# Guide\n\nReset the BlobStore.\n"
    done, cache = prepare({"a.md": content})
    (blob,) = cache.blobs.values()
    assert (done.files, done.failed) == (1, {})
    assert blob.source == content.encode()
    assert [embedded.chunk.layer[:2] for embedded in blob.chunks] == ["D1", "D3"]
    for embedded in blob.chunks:
        assert embedded.embedding is not None
        assert np.linalg.norm(embedded.embedding) == pytest.approx(1.0, abs=1e-5)
        assert embedded.length == len(analyse(embedded.chunk.embedded_text))
        assert embedded.terms.by_term["blobstor"] == 1


def test_only_layers_that_a_search_covers_by_itself_are_embedded() -> None:
    """And each vector stays with its chunk."""
    embedder = Embedder()
    content = "import json\n\n\nclass ShopService:\n    def load(self, text):\n        return json.loads(text)\n"
    _, cache = prepare({"a.py": content, "b.md": "# Rules\n\n- Passwords must have 12 characters.\n"}, embedder)
    embedded = [chunk for blob in cache.blobs.values() for chunk in blob.chunks]
    layers = {chunk.chunk.layer for chunk in embedded}
    assert {Layer.C2_DEPENDENCY_GRAPH, Layer.C4_SEMANTIC_ROLES, Layer.D2_FACT_INDEX, Layer.D4_POLICY_INDEX} < layers
    assert {chunk.chunk.layer for chunk in embedded if chunk.embedding is not None} == set(DEFAULT_LAYERS)
    with_vectors = [chunk for chunk in embedded if chunk.embedding is not None]
    assert sum(embedder.calls) == len(with_vectors)
    for made in with_vectors:
        assert np.allclose(made.embedding, Embedder().embed_documents([made.chunk.embedded_text])[0])
    assert all(chunk.length for chunk in embedded)


def test_twice_gives_the_same_and_writes_once() -> None:
    files: dict[str, str | bytes] = {"a.md": "# A\n\ntext\n", "b.py": "x = 1\n"}
    _, cache = prepare(files)
    before = dict(cache.blobs)
    prepare(files, cache=cache)
    assert cache.blobs.keys() == before.keys()
    assert all(cache.blobs[key] is before[key] for key in before)


def test_one_unreadable_file_among_many_fails_alone() -> None:
    files: dict[str, str | bytes] = {f"{number}.md": f"# {number}\ntext\n" for number in range(5)}
    done, cache = prepare({**files, "bad.md": "привет".encode("cp1251")})
    assert kept_paths(cache) == sorted(files)
    assert done.failed == {"bad.md": "It is not UTF-8 text (line 1): save it as UTF-8."}


def test_a_file_that_its_parser_did_not_expect_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a parser raises: a fault of ours costs one file."""

    def failing(path: str, text: str) -> None:
        raise TypeError(text)

    monkeypatch.setitem(prepare_module.CODE_PARSERS, ".odd", failing)
    result, cache = prepare({"a.odd": "a secret", "b.md": "# B\n"})
    assert result.failed == {"a.odd": "Its parser failed on it (TypeError); please report the file."}
    assert kept_paths(cache) == ["b.md"]


def test_notes_of_the_parser_are_kept() -> None:
    _, cache = prepare({"a.py": 'print "hello"\n'})
    (blob,) = cache.blobs.values()
    assert len(blob.notes) == 1
    assert [embedded.chunk.layer[:2] for embedded in blob.chunks] == ["C0"]


def test_a_file_without_text_is_kept_without_chunks() -> None:
    embedder = Embedder()
    done, cache = prepare({"a.md": "\ufeff \n"}, embedder)
    (blob,) = cache.blobs.values()
    assert (done.files, blob.chunks, embedder.calls) == (1, (), [])


def test_the_embedder_is_called_with_chunks_of_many_files_and_never_too_many() -> None:
    embedder = Embedder()
    prepare({f"{number}.md": f"# {number}\n\n" + "## S\n\ntext\n\n" * 10 for number in range(60)}, embedder)
    assert max(embedder.calls) <= EMBED_CHUNKS
    assert len(embedder.calls) == -(-sum(embedder.calls) // EMBED_CHUNKS)


def test_files_are_kept_batch_by_batch() -> None:
    """A worker that is stopped in the middle finds its batches again."""
    cache, embedder = FakeBlobCache(), Embedder()
    preparer = Preparer(cache=cache, embedder=embedder, chunker=Chunker(counter=embedder))
    done = Prepared()

    def stop_later() -> None:
        if done.files:
            raise LockLost

    files: dict[str, str | bytes] = {f"{number:03}.md": f"# {number}\n" for number in range(BATCH_FILES * 3)}
    with pytest.raises(LockLost):
        preparer.prepare(keyed(files), done, stop_later)
    assert kept_paths(cache) == sorted(files)[:BATCH_FILES]


def test_progress_is_told_between_slices_of_one_large_file() -> None:
    embedder, told = Embedder(), []
    preparer = Preparer(cache=FakeBlobCache(), embedder=embedder, chunker=Chunker(counter=embedder))
    done = Prepared()
    preparer.prepare(keyed({"a.md": "## S\n\ntext\n\n" * 1_000}), done, lambda: told.append(len(embedder.calls)))
    assert sorted(set(told)) == list(range(len(embedder.calls) + 1))
    assert len(embedder.calls) > 3


# --- an embedder that misbehaves -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda texts, vectors: vectors[:-1], id="one too few"),
        pytest.param(lambda texts, vectors: np.vstack([vectors, vectors[:1]]), id="one too many"),
        pytest.param(lambda texts, vectors: vectors[:, :-1], id="another dimension"),
        pytest.param(lambda texts, vectors: vectors[0], id="no matrix"),
        pytest.param(lambda texts, vectors: vectors * 0, id="zero"),
        pytest.param(lambda texts, vectors: vectors * 2, id="not of unit length"),
        pytest.param(lambda texts, vectors: vectors * np.nan, id="not a number"),
        pytest.param(lambda texts, vectors: np.full_like(vectors, np.inf), id="infinite"),
    ],
)
def test_what_is_no_vector_is_refused(spoil: Callable[[Sequence[str], Vectors], Any]) -> None:
    with pytest.raises(EmbedderRejected):
        embed([chunk("a"), chunk("b")], Embedder(spoil))


def test_no_chunk_is_no_call() -> None:
    embedder = Embedder()
    assert embed([], embedder) == []
    assert embedder.calls == []


def test_a_file_that_the_embedder_refuses_fails_alone() -> None:
    files: dict[str, str | bytes] = {f"{number}.md": f"# {number}\ntext\n" for number in range(9)}
    done, cache = prepare({**files, "odd.md": "# poison\n"}, refusing("poison"))
    assert kept_paths(cache) == sorted(files)
    assert done.files == 9
    assert done.failed == {"odd.md": "HTTP 400: input too long"}


def test_an_embedder_that_refuses_everything_fails_the_job() -> None:
    with pytest.raises(EmbedderRejected):
        prepare({"a.md": "# A\n", "b.md": "# B\n"}, refusing(""))


def test_an_embedder_that_refuses_the_last_batch_fails_those_files_only() -> None:
    files: dict[str, str | bytes] = {f"{number:03}.md": f"# {number}\n" for number in range(BATCH_FILES)}
    done, cache = prepare({**files, "z.md": "# poison\n"}, refusing("poison"))
    assert (len(cache.blobs), list(done.failed)) == (BATCH_FILES, ["z.md"])


def test_an_embedder_that_is_away_comes_through() -> None:
    cache = FakeBlobCache()
    with pytest.raises(EmbedderUnavailable):
        prepare({"a.md": "# A\n", "b.md": "# poison\n"}, refusing("poison", EmbedderUnavailable), cache)
    assert cache.blobs == {}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("import " + "a" * 3_000 + "\n", id="a very long name"),
        pytest.param("".join(f"a{number} = 1\n" for number in range(30_000)), id="very many names"),
    ],
)
def test_links_of_any_file_can_be_stored(content: str) -> None:
    links = parse_file(source_file("a.py", content), Chunker(counter=HashedEmbedder())).links
    assert len(links) <= MOST_LINKS + 1
    assert max(len(link.target.encode()) for link in links) <= 2_000
