"""The embedder of a run, named so that a process of its own can load it anew."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from strata.ports.embedding import Embedder
from strata_bench.corpus import PROJECT
from strata_bench.vectors import StoredVectors
from strata_eval.models import cached_embedder, real_embedder


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderChoice:
    """`name` is one that `STRATA_EMBEDDER` takes; `threads` are the model's, 0 for one a core.

    With `is_looked_up` vectors are looked up in place of the model's work; in the folder `cache` they are kept for the
    next run.
    """

    name: str
    threads: int = 0
    is_looked_up: bool = False
    cache: Path | None = None

    def load(self) -> Embedder:
        """Pulls the model where it is not there."""
        if self.cache is not None:
            return cached_embedder(self.name, models=_models(), cache=self.cache, say=_say)
        embedder = self._model()
        return StoredVectors(embedder=embedder) if self.is_looked_up else embedder

    def _model(self) -> Embedder:
        if self.name == "hashed":
            from strata.providers.hashed.embedder import HashedEmbedder

            return HashedEmbedder()
        return real_embedder(self.name, models=_models(), say=_say, threads=self.threads)[0]


def _models() -> Path:
    return Path(os.environ.get("STRATA_MODEL_DIRECTORY", "").strip() or PROJECT / ".strata" / "models")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
