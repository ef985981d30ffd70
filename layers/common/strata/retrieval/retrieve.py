"""Question → candidates: check it, make terms and a vector of it, search once."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from strata.errors import InvalidQuery, InvalidRequest
from strata.model.access import Identity
from strata.model.asking import MAX_QUERY_CHARACTERS, Candidate, Expansion, IndexedText, Names, Question, Retrieved
from strata.model.corpus import Layer, Vector
from strata.ports.embedding import Embedder
from strata.ports.generation import Expander
from strata.ports.reranking import Reranker
from strata.ports.search import ChunkSearch, SearchRequest
from strata.retrieval.analyser import leading_terms, query_terms
from strata.retrieval.diversity import diversified
from strata.retrieval.filters import DEFAULT_LAYERS, checked_paths
from strata.retrieval.merging import merged
from strata.retrieval.naming import names_in
from strata.retrieval.weighing import fusion_weights, shape_of

MAX_PAGE_BYTES = 3 * 1024 * 1024
"""Of the files of one page: after it no further one begins, so that a reply stays within what a function may answer."""
MAX_FILE_CHUNKS = 500
"""Rows that one call for exact files returns at most."""

# What no embedder and no database can read: NUL, and halves of characters that a JSON escape may hold.
_UNREADABLE = re.compile("[\x00\ud800-\udfff]")

RERANKED_ROWS = 50
"""Rows of the fused list that are ranked anew: twice as many cost 2 to 3 ms of processor time and win nothing that is
beyond chance. Up to half as many rows can be asked for without a change in the order of the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Retriever:
    """Finds the chunks of a session that answer a question.

    `depth` is how many rows each list (dense, lexical) gives to the fusion; with a reranker, `RERANKED_ROWS` of the
    fused ones are ranked anew before the best are returned. An `expander` adds other words to what is searched for;
    rows are still ranked anew by the question as it was asked. With a `structural_weight` the neighbours of the best
    rows over links are a list of the fusion, too. Neighbouring rows of a file become one of up
    to `row_tokens`.
    """

    search: ChunkSearch
    embedder: Embedder
    depth: int
    reranker: Reranker | None = None
    expander: Expander | None = None
    structural_weight: float = 0.0
    row_tokens: int = 0

    def retrieve(self, question: Question) -> Retrieved:
        """The best `question.limit` chunks that the caller may read, best first: by meaning, by words and by names.

        More are searched for than are shown, so that what shows the same lines as a better row can give way.

        Raises `InvalidQuery`, `SessionNotFound`, `EmbeddingModelMismatch`, and the embedder's and the store's
        temporary errors.
        """
        question = _checked(question)
        terms = query_terms(question.text)
        if not terms:
            raise InvalidQuery("The question holds no word and no number; ask in words.")
        weights = fusion_weights(shape_of(question.text, self.embedder.languages))
        expansion = Expansion() if self.expander is None else self.expander.expand(question)
        found = self.search.search(
            SearchRequest(
                question=question,
                embedding=self._embedded(question.text, expansion),
                embedding_model=self.embedder.model_id,
                terms=tuple(dict.fromkeys((*terms, *query_terms(expansion.query)))),
                leading_terms=leading_terms(question.text),
                names=names_in(question.text) if weights.exact else Names(),
                depth=self.depth,
                rows=max(RERANKED_ROWS, self.depth, 2 * question.limit),
                dense_weight=weights.dense,
                lexical_weight=weights.lexical,
                exact_weight=weights.exact,
                structural_weight=self.structural_weight,
            )
        )
        if expansion.note:
            found = replace(found, notes=(*found.notes, expansion.note))
        if self.reranker is not None:
            found = self.reranker.rerank(question, found)
        # Half of them stay in any case, so that ten rows are the first ten of more.
        least_rows = max(question.limit, len(found.candidates) // 2)
        rows = merged(found.candidates, most_tokens=self.row_tokens, least_rows=least_rows)
        return replace(found, candidates=diversified(replace(found, candidates=rows), question.limit))

    def _embedded(self, text: str, expansion: Expansion) -> Vector:
        """The question's vector; with an expansion the middle of the question's, the rewritten one's and the passage's.

        HyDE takes the question itself for one of the passages: what the model made up can't lead far away from it.
        """
        vectors = [self.embedder.embed_query(text)]
        if expansion.query:
            vectors.append(self.embedder.embed_query(expansion.query))
        if expansion.passage:
            vectors.append(self.embedder.embed_documents([expansion.passage])[0])
        if len(vectors) == 1:
            return vectors[0]
        from strata.retrieval.vectors import middle_of  # brings numpy, which a function starts without

        return middle_of(vectors)

    def retrieve_lexical_code(self, question: Question) -> tuple[Candidate, ...]:
        """Source chunks (C0) by words alone: for code when there is no vector.

        A question without a term finds nothing, without a search. Raises `InvalidQuery` for one that is too long,
        and `SessionNotFound`.
        """
        terms = query_terms(question.text)
        if not terms:
            return ()
        question = _checked(question)
        code = replace(question, filter=replace(question.filter, layers=(Layer.C0_SOURCE_CHUNKS,)))
        request = SearchRequest(
            question=code,
            embedding=None,
            embedding_model=None,
            terms=terms,
            leading_terms=leading_terms(question.text),
            depth=self.depth,
        )
        return self.search.search(request).candidates

    def retrieve_exact_files(
        self, session_id: str, identity: Identity, paths: Sequence[str], *, layers: Sequence[Layer] = ()
    ) -> tuple[Candidate, ...]:
        """Every chunk of these files (of these layers), in the order of the paths; works without an embedder.

        Blank paths are dropped; without a path left there is nothing to find and no search. Raises `InvalidPath` and
        `SessionNotFound`. At most `MAX_FILE_CHUNKS` rows.
        """
        wanted = checked_paths(paths)
        if not wanted:
            return ()
        return self.search.files(session_id, identity, wanted, layers=layers, limit=MAX_FILE_CHUNKS).candidates

    def file_page(self, session_id: str, identity: Identity, *, after: str = "", limit: int = 100) -> list[IndexedText]:
        """The next files that the caller may read, whole, behind the path `after`; empty when there are no more.

        Raises `InvalidPath` for a path that can't be one, and `SessionNotFound`.
        """
        (behind,) = checked_paths([after]) or ("",)
        return self.search.file_page(session_id, identity, after=behind, limit=limit, most_bytes=MAX_PAGE_BYTES)


def _checked(question: Question) -> Question:
    if question.limit < 1:
        raise InvalidRequest("The limit must be at least 1.")
    filter = question.filter
    if not filter.layers:
        filter = replace(filter, layers=DEFAULT_LAYERS)
    return replace(question, text=checked_text(question.text), filter=filter)


def checked_text(text: str) -> str:
    """The question with composed characters, stripped, without what can't be stored or embedded; raises `InvalidQuery`
    for none or too much.

    >>> checked_text(" где логин?\\x00 ")
    'где логин?'
    """
    cleaned = unicodedata.normalize("NFC", _UNREADABLE.sub("", text)).strip()
    if not cleaned:
        raise InvalidQuery("The question is empty.")
    if len(cleaned) > MAX_QUERY_CHARACTERS:
        raise InvalidQuery(f"The question has {len(cleaned)} characters; {MAX_QUERY_CHARACTERS} are possible.")
    return cleaned
