from __future__ import annotations

from collections.abc import Sequence

import pytest

from strata.errors import EmbedderRejected, EmbedderUnavailable
from strata.indexing.persistence import PersistentEmbedder
from strata.jobs.retrying import RetryPolicy
from strata.model.corpus import Vector, Vectors
from strata.ports.embedding import Embedder
from strata.providers.hashed.embedder import HashedEmbedder


class Failing:
    """Raises its errors, one a call, before it answers."""

    model_id, dimension, max_tokens = HashedEmbedder.model_id, HashedEmbedder.dimension, HashedEmbedder.max_tokens

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def count(self, texts: Sequence[str]) -> list[int]:
        return HashedEmbedder().count(texts)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        if self.errors:
            raise self.errors.pop()
        return HashedEmbedder().embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        return HashedEmbedder().embed_query(text)


def persistent(embedder: Embedder) -> PersistentEmbedder:
    return PersistentEmbedder(embedder=embedder, policy=RetryPolicy(attempts=3, sleep=lambda _: None))


def test_a_call_that_fails_for_a_moment_is_repeated_alone() -> None:
    embedder = Failing(EmbedderUnavailable(), EmbedderUnavailable())
    assert persistent(embedder).embed_documents(["a"]).shape == (1, embedder.dimension)
    assert embedder.calls == 3


@pytest.mark.parametrize(
    ("errors", "calls"),
    [
        pytest.param([EmbedderUnavailable() for _ in range(3)], 3, id="away for long"),
        pytest.param([EmbedderRejected()], 1, id="a refusal stays one"),
    ],
)
def test_what_does_not_pass_comes_through(errors: list[Exception], calls: int) -> None:
    embedder = Failing(*errors)
    with pytest.raises(type(errors[0])):
        persistent(embedder).embed_documents(["a"])
    assert embedder.calls == calls


def test_it_is_the_embedder_that_it_asks() -> None:
    plain = HashedEmbedder()
    asked = persistent(plain)
    assert (asked.model_id, asked.dimension, asked.max_tokens) == (plain.model_id, plain.dimension, plain.max_tokens)
    assert asked.count(["one two"]) == plain.count(["one two"])
    assert (asked.embed_query("x") == plain.embed_query("x")).all()
