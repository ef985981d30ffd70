"""What every `Embedder` promises. A test class inherits it and gives the fixture `embedder`."""

from __future__ import annotations

import numpy as np
import pytest

from strata.ports.embedding import Embedder

TEXTS = [
    "The session's lock is taken by one worker at a time.",
    "x",
    "Сессия закрывается, когда задание выполнено.",
    "def release(self, held: Lease) -> bool:\n    return self.table.update(held.session_id, owner=None)",
    "a much longer text " * 40,
    "…",
]


class EmbedderContract:
    def test_vectors_are_unit_float32_of_the_declared_dimension(self, embedder: Embedder) -> None:
        vectors = embedder.embed_documents(TEXTS)
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)

    def test_each_vector_stands_where_its_text_stood(self, embedder: Embedder) -> None:
        together = embedder.embed_documents(TEXTS)
        alone = np.stack([embedder.embed_documents([text])[0] for text in TEXTS])
        assert (together * alone).sum(axis=1) == pytest.approx(1.0, abs=1e-4)

    def test_the_same_call_gives_the_same_vectors(self, embedder: Embedder) -> None:
        assert np.array_equal(embedder.embed_documents(TEXTS), embedder.embed_documents(TEXTS))

    def test_a_query_is_one_unit_vector_near_its_text(self, embedder: Embedder) -> None:
        query = embedder.embed_query("which worker has taken the lock of the session?")
        assert query.shape == (embedder.dimension,)
        assert query.dtype == np.float32
        nearest = int(np.argmax(embedder.embed_documents(TEXTS) @ query))
        assert TEXTS[nearest].startswith("The session's lock")

    def test_no_texts_give_no_vectors_and_no_counts(self, embedder: Embedder) -> None:
        assert embedder.embed_documents([]).shape == (0, embedder.dimension)
        assert embedder.count([]) == []

    @pytest.mark.parametrize("blank", ["", " ", "\n\t  \n", "\u00a0"])
    def test_a_blank_text_is_refused(self, embedder: Embedder, blank: str) -> None:
        with pytest.raises(ValueError, match="blank"):
            embedder.embed_documents(["something", blank])
        with pytest.raises(ValueError, match="blank"):
            embedder.embed_query(blank)

    def test_what_is_over_the_limit_changes_nothing(self, embedder: Embedder) -> None:
        words = [f"word{number}" for number in range(400)]
        long = " ".join(words)
        longer = long + " and something else entirely"
        assert embedder.count([long])[0] > embedder.max_tokens
        assert np.array_equal(embedder.embed_query(long), embedder.embed_query(longer))

    @pytest.mark.parametrize("text", [f"{'{}[];' * 9}\n", "x = 1\n", "qzxj vkw~~ %d\n", "\n", f"{'a' * 300}\n"])
    def test_plain_text_has_at_most_a_token_for_each_character(self, embedder: Embedder, text: str) -> None:
        assert embedder.count([text])[0] <= len(text) + 1

    def test_counts_are_whole_in_order_and_never_cut(self, embedder: Embedder) -> None:
        counts = embedder.count(["one two", "", "one two three four", " ".join(["word"] * 1_000)])
        assert counts[0] == 2
        assert counts[1] == 0
        assert counts[2] == 4
        assert counts[3] == 1_000

    @pytest.mark.parametrize(
        "odd", ["\ud800 half a pair", "\x00\x01 control", "🙂👩‍👩‍👧", "ا" * 500, "x" * 5_000, "\u200b"]
    )
    def test_odd_text_has_a_vector_and_a_count(self, embedder: Embedder, odd: str) -> None:
        assert np.isfinite(embedder.embed_query(odd)).all()
        assert embedder.count([odd])[0] >= 0
