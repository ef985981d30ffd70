"""The embedder of tests keeps the same promises as a real one."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from strata.ports.embedding import Embedder
from strata.providers.hashed.embedder import HashedEmbedder
from tests.support.embedder_contract import EmbedderContract


class TestHashedEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashedEmbedder()

    def test_another_process_makes_the_same_vector(self, embedder: Embedder) -> None:
        script = (
            "from strata.providers.hashed.embedder import HashedEmbedder as E;"
            "print(E().embed_query('the lock of a session').tobytes().hex())"
        )
        made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert bytes.fromhex(made.stdout) == embedder.embed_query("the lock of a session").tobytes()

    def test_texts_without_a_common_word_are_far_apart(self, embedder: Embedder) -> None:
        one, other = embedder.embed_documents(["bananas grow in warm countries", "def fetch(url): pass"])
        assert abs(float(np.dot(one, other))) < 0.3
