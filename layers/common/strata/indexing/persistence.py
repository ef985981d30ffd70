"""An embedder that is asked again when it is away for a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from strata.indexing.wrapping import WrappedEmbedder
from strata.jobs.retrying import RetryPolicy, retried
from strata.model.corpus import Vector, Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentEmbedder(WrappedEmbedder):
    """Repeats a single call: beginning the job again for it would repeat everything since the last batch, and of many
    calls one fails nearly always.
    """

    policy: RetryPolicy = field(default_factory=lambda: RetryPolicy(attempts=6, first_pause_s=0.2, longest_pause_s=4.0))

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return retried(lambda: self.embedder.embed_documents(texts), self.policy)

    def embed_query(self, text: str) -> Vector:
        return retried(lambda: self.embedder.embed_query(text), self.policy)
