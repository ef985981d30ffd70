"""All that the text of a search depends on."""

from __future__ import annotations

from dataclasses import dataclass

from strata.model.asking import Filter, Names
from strata.ports.search import SearchRequest
from strata.retrieval.filters import has_preferences


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


def names_of(request: SearchRequest) -> Names:
    """What is looked for letter for letter: nothing in a search without words, which score the rows that hold it, and
    nothing where the list has no weight."""
    return request.names if request.terms and request.exact_weight else Names()
