"""`CrossEncoderReranker`: the best rows in the order of a model that reads question and row together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from strata.errors import RerankerRejected, StrataError
from strata.model.asking import Candidate, Question, Retrieved, ScorePart
from strata.ports.reranking import PassageScorer, Reranker
from strata.retrieval.diversity import preference
from strata.retrieval.time_limits import within

_log = logging.getLogger(__name__)

SCORED_ROWS = 50
MAX_PASSAGE_CHARACTERS = 6_000
"""About 1,500 tokens: no chunk is longer, a given one may be."""
PART = "cross_encoder"
BEHIND = "behind_cross_encoder"
SENTENCES = {
    PART: "What a model that reads the question and the row together makes of it.",
    BEHIND: "That model did not read it: its score is moved below those of the rows that it read.",
}
"""What each part tells of a row, for whoever reads its explanation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossEncoderReranker:
    """A `Reranker`: `before` orders the rows, then the scorer the first `rows` of them, within `timeout_s`.

    A row's score becomes the scorer's. The rows behind keep their order and their distances, moved below the last of
    those. A scorer that fails or is late leaves the order of `before` and a note.
    """

    scorer: PassageScorer
    timeout_s: float
    before: Reranker | None = None
    rows: int = SCORED_ROWS

    def rerank(self, question: Question, retrieved: Retrieved) -> Retrieved:
        if self.before is not None:
            retrieved = self.before.rerank(question, retrieved)
        if len(retrieved.candidates) < 2:
            return retrieved
        best, rest = retrieved.candidates[: self.rows], retrieved.candidates[self.rows :]
        try:
            scores = within(
                self.timeout_s, lambda: self.scorer.scores(question.text, [passage_of(row) for row in best])
            )
            if len(scores) != len(best):
                raise RerankerRejected(f"The reranker scored {len(scores)} of {len(best)} passages.")
        except TimeoutError:
            return _noted(retrieved, f"did not answer within {self.timeout_s:g} s")
        except Exception as error:  # whatever it is: the rows are found, and somebody waits for them
            _log.warning("The reranker failed.", exc_info=True)
            return _noted(retrieved, f"failed ({error.code if isinstance(error, StrataError) else 'internal'})")
        scored = [_scored(row, score) for row, score in zip(best, scores, strict=True)]
        scored.extend(_behind(rest, min(scores)))
        # What a caller prefers stays in front; ties keep the order in which they came.
        scored.sort(key=lambda row: (preference(row), -row.score))
        return replace(retrieved, candidates=tuple(scored), spread=False)


def passage_of(row: Candidate) -> str:
    """What the model reads of a row: where it stands, its title, its content."""
    title = row.title if row.title and row.title != row.path else ""
    return "\n".join(part for part in (row.path, title, row.content) if part)[:MAX_PASSAGE_CHARACTERS]


def _noted(retrieved: Retrieved, reason: str) -> Retrieved:
    return replace(retrieved, notes=(*retrieved.notes, f"The reranker {reason}: the rows are in the order before it."))


def _scored(row: Candidate, score: float) -> Candidate:
    explanation = row.explanation
    if explanation is not None:
        part = ScorePart(name=PART, sentence=SENTENCES[PART], rank=None, value=score, weight=1.0, part=score)
        explanation = replace(explanation, parts=(part,))
    return replace(row, score=score, explanation=explanation)


def _behind(rows: Sequence[Candidate], lowest: float) -> list[Candidate]:
    if not rows:
        return []
    moved = lowest - max(row.score for row in rows)
    part = ScorePart(name=BEHIND, sentence=SENTENCES[BEHIND], rank=None, value=moved, weight=1.0, part=moved)
    return [
        replace(
            row,
            score=row.score + moved,
            explanation=row.explanation and replace(row.explanation, parts=(*row.explanation.parts, part)),
        )
        for row in rows
    ]
