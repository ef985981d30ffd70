"""The statement of a search: from the request, its text and its parameters."""

from __future__ import annotations

from functools import lru_cache

from psycopg import sql

from strata.ports.search import SearchRequest
from strata.retrieval.prepared import PreparedText
from strata.retrieval.statements import conditions
from strata.retrieval.statements.dense import dense_parameters
from strata.retrieval.statements.exact import name_parameters
from strata.retrieval.statements.fusion import fused, fusion_parameters
from strata.retrieval.statements.lexical import lexical_parameters
from strata.retrieval.statements.rows import Statement
from strata.retrieval.statements.shape import Shape, names_of


def search_statement(request: SearchRequest, *, cells: bool = True) -> Statement:
    """The search: at most `rows` rows, best first, and never fewer than the question's limit.

    Without `cells` every row is looked at: for an index that has none the statement is planned faster so.

    Where preferences are asked for, the lists of `depth` rows are drawn in the same order as the result (first
    everything preferred), so that no better row is lost to them; ranks in a list go by distance and BM25 alone.
    """
    question = request.question
    text, prepared = _search_text(Shape.of(request, cells=cells))
    parameters = {
        **conditions.session_parameters(question.session_id, question.identity),
        **conditions.filter_parameters(question.filter),
        **dense_parameters(request),
        **lexical_parameters(request),
        **name_parameters(names_of(request)),
        **fusion_parameters(request),
    }
    return Statement(text=text, parameters=parameters, prepared=prepared)


@lru_cache(maxsize=256)
def _search_text(shape: Shape) -> tuple[sql.Composed, PreparedText]:
    text = fused(shape)
    return text, PreparedText.of(text.as_string(None))
