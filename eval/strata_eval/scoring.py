"""Rows found for each query → the metrics of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strata.model.asking import Candidate
from strata.ports.embedding import TokenCounter
from strata_eval.dataset import JudgedSet
from strata_eval.judgements import Golden, pass_at
from strata_eval.metrics import hit, ndcg, precision, reciprocal_rank

Rows = Sequence[Candidate]
SHOWN_ROWS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Means by the metric's name, and nDCG@10 of each query, in the order of the set's queries."""

    metrics: Mapping[str, float]
    ndcg: tuple[float, ...]


def score(
    judged: JudgedSet,
    found: Sequence[Rows],
    golden: Mapping[str, Sequence[Golden]],
    *,
    counter: TokenCounter | None = None,
) -> Scored:
    """`found` holds each query's rows, best first.

    By file: the first row of a file gives it its rank. Precision comes in three kinds: `precision@5` counts chunks
    that are of a relevant file, `precision@5_by_chunk` chunks that hold a golden piece (where the set names pieces),
    `precision@5_by_document` files; the last one's ceiling is 0.2 with one relevant file. With a counter `tokens@10`
    are the tokens that a reader of the first ten rows has before him.
    """
    values: dict[str, list[float]] = {}
    tokens = _token_counts(found, counter) if counter is not None else None

    def add(name: str, value: float) -> None:
        values.setdefault(name, []).append(value)

    for query, rows in zip(judged.queries, found, strict=True):
        relevant = judged.relevant[query.query_id]
        files = list(dict.fromkeys(row.path for row in rows))
        for k in (1, 5, 10):
            add(f"hit@{k}", hit(files, relevant, k=k))
        add("mrr@10", reciprocal_rank(files, relevant))
        add("ndcg@10", ndcg(files, relevant))
        add("precision@5", sum(row.path in relevant for row in rows[:5]) / 5)
        add("precision@5_by_document", precision(files, relevant))
        if tokens is not None:
            add("tokens@10", sum(tokens[row.content] for row in rows[:SHOWN_ROWS]))
        pieces = golden.get(query.query_id, ())
        if pieces:
            right = [any(piece.found_by(row, given=judged.given) for piece in pieces) for row in rows[:5]]
            add("precision@5_by_chunk", sum(right) / 5)
        if pieces and pieces[0].chunk is not None:
            for k in (5, 10, 20):
                add(f"pass@{k}", pass_at(pieces, rows, k, given=judged.given))
        elif pieces:
            shown, symbols = _symbols_shown(rows, pieces), {str(piece) for piece in pieces}
            add("symbol_hit@10", hit(shown, symbols))
            add("symbol_ndcg@10", ndcg(shown, symbols))
    return Scored(
        metrics={name: round(float(np.mean(numbers)), 4) for name, numbers in values.items()},
        ndcg=tuple(values["ndcg@10"]),
    )


def _symbols_shown(rows: Rows, pieces: Sequence[Golden]) -> list[str]:
    """The symbol that each row is the first to show, of those asked for; the row's rank where there is none."""
    shown: list[str] = []
    for rank, row in enumerate(rows, start=1):
        new = (str(piece) for piece in pieces if piece.found_by(row, given=False) and str(piece) not in shown)
        shown.append(next(new, str(rank)))
    return shown


def _token_counts(found: Sequence[Rows], counter: TokenCounter) -> dict[str, int]:
    texts = list({row.content: None for rows in found for row in rows[:SHOWN_ROWS]})
    return dict(zip(texts, counter.count(texts), strict=True))
