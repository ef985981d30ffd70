"""`FeatureReranker`: the fused rows in a better order, by a linear model over their ranking fields.

Each field is brought to a common scale within the question, so a weight means the same for every session. A row's
score is the sum of field times weight: its explanation adds up. The weights are in `feature_weights.json`, with the
run of `strata eval train` that made them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from strata.model.asking import Candidate, Explanation, Question, Retrieved, ScorePart
from strata.model.corpus import Layer
from strata.retrieval.analyser import analyse, query_terms
from strata.retrieval.weighing import QuestionShape, shape_of

WEIGHTS_FILE = Path(__file__).with_name("feature_weights.json")
FEATURES = (
    "dense",  # cosine, over the best cosine of the dense list; as far as the embedder understands the question
    "cosine",  # cosine itself, likewise
    "dense_rank",  # 61 / (60 + rank), likewise
    "bm25",  # over the greatest BM25
    "bm25_unsure",  # bm25, times how far the nearest row is; whole where the embedder does not understand
    "dense_for_code",  # dense, where a few plain words meet source code: they name what it does, not how it is spelt
    "bm25_for_code",  # bm25, likewise
    "file_bm25",  # of the file's best rows together
    "file_coverage",  # share of the question's rarest words that the whole file holds, rare ones counting more
    "neighbour_bm25",  # the best of the rows that touch or overlap this one
    "file_name",  # words of the question in the file's name, words that few rows hold counting more
    "identifiers",  # share of the identifiers in the question that stand here letter for letter
    "symbol_row",  # a row of the symbol catalogue
)
"""The fields, in the order of the columns."""

SHORT_QUESTION_WORDS = 8
"""A question of so few words is short; one of twice as many is not short at all."""
_FILE_ROWS = 4
_TOUCHING_LINES = 3
_MOST_IDENTIFIERS = 30
_CODE = frozenset(layer for layer in Layer if layer.value.startswith("C"))

Floats = NDArray[np.float64]


@cache
def shipped_weights() -> Mapping[str, float]:
    """The weights that come with the package."""
    weights: Mapping[str, float] = json.loads(WEIGHTS_FILE.read_text(encoding="utf-8"))["weights"]
    return weights


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureReranker:
    """A `Reranker`. `languages` are those that the embedder declares."""

    languages: frozenset[str]
    weights: Mapping[str, float] = field(default_factory=shipped_weights)

    def rerank(self, question: Question, retrieved: Retrieved) -> Retrieved:
        """The same rows, best first; `score` becomes the model's. What a caller prefers stays in front.

        Ties keep the order in which they came.
        """
        if len(retrieved.candidates) < 2:
            return retrieved
        fields = feature_rows(question.text, retrieved, self.languages)
        scores = fields @ self._vector()
        scored = [
            replace(candidate, score=float(score), explanation=self._explained(candidate, values))
            for candidate, score, values in zip(retrieved.candidates, scores, fields, strict=True)
        ]
        scored.sort(key=lambda candidate: (-candidate.prefer_bonus, candidate.test_penalty, -candidate.score))
        return replace(retrieved, candidates=tuple(scored))

    def _explained(self, candidate: Candidate, values: Floats) -> Explanation | None:
        """The explanation, if the row has one, with the parts of the new score in place of those of the fusion."""
        if candidate.explanation is None:
            return None
        weighed = (
            (name, float(value), self.weights.get(name, 0.0)) for name, value in zip(FEATURES, values, strict=True)
        )
        return replace(
            candidate.explanation,
            parts=tuple(
                ScorePart(name=name, rank=None, value=value, weight=weight, part=value * weight)
                for name, value, weight in weighed
                if value * weight
            ),
        )

    def _vector(self) -> Floats:
        return np.array([self.weights.get(name, 0.0) for name in FEATURES])


def feature_rows(text: str, retrieved: Retrieved, languages: frozenset[str]) -> Floats:
    """The fields of every row: shape (rows, len(FEATURES)), columns in the order of `FEATURES`."""
    rows = retrieved.candidates
    shape = shape_of(text, languages)
    terms = query_terms(text)
    cosines = np.array([0.0 if row.distance is None else 1.0 - row.distance for row in rows]).clip(min=0.0)
    dense = _over(cosines, None if retrieved.best_distance is None else 1.0 - retrieved.best_distance)
    bm25 = _over(np.array([row.bm25 or 0.0 for row in rows]), retrieved.greatest_bm25)
    sure = shape.understood * float(
        np.clip(max(cosines.max(initial=0.0), 1.0 - (retrieved.best_distance or 1.0)), 0.0, 1.0)
    )
    files = _groups(row.path for row in rows)
    code = np.array([row.layer in _CODE for row in rows], dtype=np.float64)
    plain = float(not shape.identifiers) * min(1.0, max(0.0, 2.0 - shape.words / SHORT_QUESTION_WORDS))
    columns: dict[str, Floats] = {
        "dense": dense * shape.understood,
        "cosine": cosines * shape.understood,
        "dense_rank": np.array([61 / (60 + row.dense_rank) if row.dense_rank else 0.0 for row in rows])
        * shape.understood,
        "bm25": bm25,
        "bm25_unsure": bm25 * (1.0 - sure),
        "dense_for_code": dense * code * plain * shape.understood,
        "bm25_for_code": bm25 * code * plain,
        "file_bm25": _file_sums(bm25, files) / _FILE_ROWS,
        "file_coverage": np.array([row.file_coverage or 0.0 for row in rows]),
        "neighbour_bm25": _best_neighbours(rows, bm25, files),
        "file_name": _coverage(terms, [_name_terms(row.path) for row in rows]),
        "identifiers": _identifier_shares(shape, rows),
        "symbol_row": np.array([row.layer is Layer.C1_SYMBOL_CATALOG for row in rows], dtype=np.float64),
    }
    return np.stack([columns[name] for name in FEATURES], axis=1)


def _over(values: Floats, best: float | None) -> Floats:
    greatest = max(best or 0.0, float(values.max(initial=0.0)))
    return values / greatest if greatest > 0 else values


def _groups(keys: Iterable[str]) -> list[list[int]]:
    groups: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def _file_sums(values: Floats, files: Sequence[Sequence[int]]) -> Floats:
    sums = np.zeros(len(values))
    for numbers in files:
        sums[numbers] = np.sort(values[numbers])[::-1][:_FILE_ROWS].sum()
    return sums


def _best_neighbours(rows: Sequence[Candidate], values: Floats, files: Sequence[Sequence[int]]) -> Floats:
    best = np.zeros(len(rows))
    for numbers in files:
        if len(numbers) < 2:
            continue
        starts = np.array([rows[number].span.start for number in numbers])
        ends = np.array([rows[number].span.end for number in numbers])
        near = (starts[:, None] <= ends[None, :] + _TOUCHING_LINES) & (
            starts[None, :] <= ends[:, None] + _TOUCHING_LINES
        )
        np.fill_diagonal(near, False)
        best[numbers] = np.where(near, values[numbers][None, :], 0.0).max(axis=1)
    return best


def _coverage(terms: Sequence[str], held: Sequence[frozenset[str]]) -> Floats:
    """The share of the question's words that each row holds, words that few of the rows hold counting more."""
    asked = frozenset(terms)
    found = [asked & words for words in held]
    frequency: dict[str, int] = {}
    for words in found:
        for word in words:
            frequency[word] = frequency.get(word, 0) + 1
    count = len(held)
    rarity = {word: math.log(1 + (count - rows + 0.5) / (rows + 0.5)) for word, rows in frequency.items()}
    unseen = math.log(1 + (count + 0.5) / 0.5)
    whole = sum(rarity.values()) + unseen * min(len(asked) - len(rarity), _MOST_IDENTIFIERS)
    return np.array([sum(rarity[word] for word in words) for words in found]) / (whole or 1.0)


def _identifier_shares(shape: QuestionShape, rows: Sequence[Candidate]) -> Floats:
    names = [name.removesuffix("()").casefold() for name in shape.identifiers[:_MOST_IDENTIFIERS]]
    if not names:
        return np.zeros(len(rows))
    texts = [f"{row.path}\n{row.title}\n{row.content}".casefold() for row in rows]
    return np.array([sum(name in text for name in names) for text in texts]) / len(names)


@lru_cache(maxsize=1 << 14)
def _name_terms(path: str) -> frozenset[str]:
    return frozenset(analyse(path.rpartition("/")[2]))
