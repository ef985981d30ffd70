"""Why a row stands where it stands: the parts of its score, and the rule that lets the caller see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.model.asking import Explanation, ScorePart, TermPart
from strata.ports.search import SearchRequest
from strata.retrieval.fusion import RANK_CONSTANT

SENTENCES = {
    "dense": "Its place among the rows that are nearest in meaning.",
    "lexical": "Its place among the rows that hold the question's words, by BM25.",
    "exact": "Its place among the rows that hold a name, a path or a quoted phrase of the question.",
    "structural": "Its place among the rows that are linked with the best ones: imports, calls, mentions.",
}
"""What each list tells of a row, for whoever reads its explanation."""


def explanation(
    request: SearchRequest,
    *,
    dense_rank: int | None,
    distance: float | None,
    lexical_rank: int | None,
    bm25: float | None,
    exact_rank: int | None,
    structural_rank: int | None,
    terms: Mapping[str, float] | None,
    session_principals: Sequence[str],
    file_principals: Sequence[str] | None,
) -> Explanation:
    """The explanation of a row of this search.

    `terms` are the parts of its BM25 score, None where the caller may not know them. The principals are those of the
    caller's that open the session, and those that the file's own list names (None: it has no list).
    """
    lists = (
        ("dense", dense_rank, distance, request.dense_weight),
        ("lexical", lexical_rank, bm25, request.lexical_weight),
        ("exact", exact_rank, None, request.exact_weight),
        ("structural", structural_rank, None, request.structural_weight),
    )
    return Explanation(
        parts=tuple(
            ScorePart(
                name=name,
                sentence=SENTENCES[name],
                rank=rank,
                value=value,
                weight=weight,
                part=weight / (RANK_CONSTANT + rank),
            )
            for name, rank, value, weight in lists
            if rank is not None
        ),
        terms=None
        if terms is None
        else tuple(
            TermPart(term=term, part=part) for term, part in sorted(terms.items(), key=lambda item: (-item[1], item[0]))
        ),
        allowed_by=_rule(session_principals, file_principals),
    )


def _rule(session_principals: Sequence[str], file_principals: Sequence[str] | None) -> str:
    """
    >>> _rule(["user:ann"], None)
    'user:ann reads the session; the file has no list of its own'
    """
    session = f"{', '.join(session_principals)} reads the session"
    if file_principals is None:
        return f"{session}; the file has no list of its own"
    return f"{session}; the file's own list names {', '.join(file_principals)}"
