"""The exact cache before retrieval: the same question, asked by the same caller of the same state, is searched once."""

from __future__ import annotations

import hashlib
import json
import logging
import unicodedata
from dataclasses import asdict, dataclass

from strata.errors import StrataError
from strata.model.asking import Question, Retrieved
from strata.ports.caches import QueryCache
from strata.ports.search import ChunkSearch

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGate:
    """Candidates by question, kept for `ttl_s` seconds.

    Who asks and which generation answers are part of the key, so a re-index, another caller and changed rights are
    misses. `retrieval_version` names whatever else alters the candidates: the search's depth, weights and models.
    A cache that fails is a miss, never a failed question.
    """

    cache: QueryCache
    search: ChunkSearch
    retrieval_version: str
    ttl_s: int

    def lookup(self, question: Question) -> Retrieved | None:
        """What was found before, with one cheap read of the session's state, or None.

        The right to read the session is checked by that read each time: raises `SessionNotFound`.
        """
        generation, embedding_model = self.search.generation(question.session_id, question.identity)
        key = cache_key(question, generation, embedding_model, self.retrieval_version)
        try:
            found = self.cache.get(key)
        except StrataError:
            _log.warning("The query cache can't be read; the question is searched.", exc_info=True)
            return None
        if found is None or (found.generation, found.embedding_model) != (generation, embedding_model):
            return None
        return found

    def keep(self, question: Question, retrieved: Retrieved) -> None:
        """Keep candidates that an answer was made from, under the state that they were found in.

        Those with a note are not kept: a model failed, and the next search may do better.
        """
        if not retrieved.candidates or retrieved.notes:
            return
        key = cache_key(question, retrieved.generation, retrieved.embedding_model, self.retrieval_version)
        try:
            self.cache.put(key, retrieved, ttl_s=self.ttl_s)
        except StrataError:
            _log.warning("The query cache can't be written; the answer stands.", exc_info=True)


def cache_key(question: Question, generation: int, embedding_model: str, retrieval_version: str) -> str:
    """SHA-256, in hex, over everything that the candidates depend on."""
    parts = {
        "text": normalised(question.text),
        "tenant": question.identity.tenant,
        "principals": question.identity.principals,
        "session": question.session_id,
        "generation": generation,
        "filter": asdict(question.filter),
        "limit": question.limit,
        "embedding_model": embedding_model,
        "retrieval": retrieval_version,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def normalised(text: str) -> str:
    """The query without what no search sees: NFKC, one blank between words. Case stays: it divides identifiers.

    >>> normalised("  What is\\n a ｌease? ")
    'What is a lease?'
    """
    return " ".join(unicodedata.normalize("NFKC", text).split())
