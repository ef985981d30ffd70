"""All that the text of a search depends on."""

from __future__ import annotations

from dataclasses import dataclass

from strata.model.asking import Filter, Names
from strata.ports.search import SearchRequest
from strata.retrieval.filters import has_preferences
from strata.retrieval.fusion import RANK_CONSTANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Of a request what is not a parameter: requests of one shape are one text."""

    filter: Filter
    has_embedding: bool
    by_cells: bool
    has_terms: bool
    leads: bool
    has_names: bool
    phrases: int
    is_structural: bool
    explains: bool

    @classmethod
    def of(cls, request: SearchRequest, *, cells: bool) -> Shape:
        """Without `cells` every row is looked at."""
        question, names = request.question, names_of(request)
        return cls(
            filter=question.filter,
            has_embedding=request.embedding is not None,
            by_cells=cells and request.approximate and not has_preferences(question.filter),
            has_terms=bool(request.terms),
            leads=bool(request.leading_terms),
            has_names=bool(names.names),
            phrases=len(names.phrases),
            is_structural=bool(request.structural_weight),
            explains=question.explain,
        )


def rows_of(request: SearchRequest) -> int:
    """How many rows are asked for."""
    return max(request.rows, request.question.limit)


def depth_of(request: SearchRequest) -> int:
    """How many rows each list has."""
    return max(request.depth, rows_of(request))


def names_of(request: SearchRequest) -> Names:
    """What is looked for letter for letter.

    Nothing in a search without words, which score the rows that hold it. And nothing in a long question: its weight
    puts the best row of this list alone behind the last row of another, so that the list would only change the order
    of rows that are ranked anew anyway.
    """
    others = max(request.dense_weight if request.embedding is not None else 0.0, request.lexical_weight)
    counts = request.exact_weight / (RANK_CONSTANT + 1) >= others / (RANK_CONSTANT + depth_of(request))
    return request.names if request.terms and counts else Names()
