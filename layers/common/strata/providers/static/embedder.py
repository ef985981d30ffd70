"""`StaticEmbedder`: a text's vector is the mean of its tokens' vectors, which stand in a table. No model runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from strata.errors import ConfigurationError
from strata.model.corpus import Vector, Vectors
from strata.providers.onnx.description import TOKENIZER_FILE, describe
from strata.providers.vectors import checked_vectors

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

TABLE_FILE = "embeddings.npy"
"""float16, shape (tokens, dimension)."""
_BATCH = 256
"""Texts that are looked up at a time: their tokens' vectors are a few tens of megabytes."""
_CHARACTERS_PER_TOKEN = 48
"""More of a text than this times the limit is never read: a token is seldom longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticEmbedder:
    """Texts → unit vectors, without a model: words count alike wherever they stand.

    It knows the words of more languages than a small sentence model, and less of what a sentence means.
    """

    model_id: str
    dimension: int
    max_tokens: int
    languages: frozenset[str]
    table: NDArray[np.float32] = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)

    @classmethod
    def load(cls, model_directory: Path) -> StaticEmbedder:
        """Load the table and the tokenizer; raises `ConfigurationError` when there are none, or broken ones."""
        description = describe(model_directory, model_file=TABLE_FILE, name="wordllama")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        from tokenizers import Tokenizer

        again = "run `strata model pull wordllama` again."
        try:
            table = np.load(model_directory / TABLE_FILE, allow_pickle=False).astype(np.float32)
            tokenizer = Tokenizer.from_file(str(model_directory / TOKENIZER_FILE))
        except Exception as error:  # the tokenizer's errors stand straight under Exception
            raise ConfigurationError(f"The model in {model_directory} can't be loaded; {again}") from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        if table.ndim != 2 or table.shape[1] != description.dimension or tokenizer.get_vocab_size() > len(table):
            raise ConfigurationError(f"The files in {model_directory} do not belong together; {again}")
        return cls(
            model_id=description.model_id,
            dimension=description.dimension,
            max_tokens=description.max_tokens,
            languages=frozenset(description.languages),
            table=table,
            tokenizer=tokenizer,
        )

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, in order, whole."""
        return [len(encoding) for encoding in self._encode(texts)]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors in the order of the texts, each text cut to `max_tokens`. A blank text is a `ValueError`."""
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                raise ValueError(f"Text {number} of {len(texts)} is blank: it has no vector.")
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            # Each text is pooled by itself, so its vector does not depend on what else is in the call.
            for row, ids in enumerate(self._ids(texts[start : start + _BATCH]), start=start):
                mean = self.table[ids].mean(axis=0)
                length = float(np.linalg.norm(mean))
                if length > 0:  # else the check below refuses it
                    vectors[row] = mean / length
        return checked_vectors(vectors, texts=len(texts), dimension=self.dimension)

    def embed_query(self, text: str) -> Vector:
        """The table is symmetric: a query is embedded like a document."""
        vector: Vector = self.embed_documents([text])[0]
        return vector

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        most = self.max_tokens * _CHARACTERS_PER_TOKEN
        return [encoding.ids[: self.max_tokens] for encoding in self._encode([text[:most] for text in texts])]

    def _encode(self, texts: Sequence[str]) -> list[Encoding]:
        # Half of a surrogate pair is no text for the tokenizer; a JSON body may hold one.
        valid = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        return self.tokenizer.encode_batch_fast(valid, add_special_tokens=False)
