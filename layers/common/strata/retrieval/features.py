"""`FeatureReranker`: the fused rows in a better order, by a linear model over their ranking fields.

Each field is brought to a common scale within the question, so a weight means the same for every session. A row's
score is the sum of field times weight: its explanation adds up. The weights are in `feature_weights.json`, with the
run of `strata eval train` that made them.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from strata.model.asking import Candidate, Explanation, Question, Retrieved, ScorePart
from strata.model.corpus import VERBATIM_LAYERS
from strata.retrieval.analyser import analyse, query_terms
from strata.retrieval.crowding import PRICE, spread
from strata.retrieval.intent import describes_code, tells_what_code_does
from strata.retrieval.weighing import LONG_QUESTION_WORDS, QuestionShape, shape_of
from strata.retrieval.wording import wording

WEIGHTS_FILE = Path(__file__).with_name("feature_weights.json")
ROWS_ABOVE = "rows_above"
SENTENCES = {
    "cosine": "How near its meaning is to the question's, as far as the embedder knows the question's language.",
    "bm25": "How well it holds the question's words: its BM25 over the greatest, less where no file holds many.",
    "bm25_clear": "Its BM25 over the greatest, counting more the further the best row stands out from the next.",
    "bm25_unsure": "Its BM25 over the greatest, counting more the less any row is near in meaning.",
    "dense_for_code": "Source code near in meaning, where a few plain words ask: they say what code does.",
    "bm25_for_code": "Source code that holds the words of such a question: they hardly say how code is spelt.",
    "near_unclear": "Neighbouring words of the question stand near each other here; more, the less a row stands out.",
    "near_long": "Neighbouring words of the question stand near each other here; more, the longer the question.",
    "file_text_dense": "How near in meaning the best piece of its file's text is, over the best of all.",
    "file_entry_dense": "How near in meaning its file's best symbol is, or the page as a whole, over the best of all.",
    "file_bm25": "How well the best rows of its file together hold the question's words.",
    "file_bm25_clear": "How well the best rows of its file hold the words; more, the further the best row stands out.",
    "file_words": "The share of the question's words that its file's rows here hold, rare words counting more.",
    "file_words_clear": "That share of the words in its file's rows; more, the further the best row stands out.",
    "file_name": "The share of the question's words that the file's name holds, rare words counting more.",
    "symbol_name": "How much of its symbol's name the question says, where it describes or names code.",
    "identifiers": "The share of the question's identifiers that stand here letter for letter.",
    "prose_for_code": "It is a page of prose, and the question says what code does or should do.",
    ROWS_ABOVE: "Better rows of its file stand above it, which counts against it: others should be seen, too.",
}
"""What each field tells of a row, for whoever reads its explanation, and last what the row has paid."""
FEATURES = tuple(name for name in SENTENCES if name != ROWS_ABOVE)
"""The fields, in the order of the columns."""

SHORT_QUESTION_WORDS = 8
"""A question of so few words is short; one of twice as many is not short at all."""
FOUND_SHARE = 0.4
"""Where some file holds so much of the question's words, BM25 counts in full."""
_BEST_ROWS = 10
_FILE_ROWS = 4
_MOST_IDENTIFIERS = 30
_UNSEEN = ""
_PROSE = re.compile(r"\.(?:md|mdx|markdown|rst|txt|text|html?|adoc|org|ipynb|pdf|tex)\Z", re.IGNORECASE)

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
        """The same rows, best first; `score` becomes the model's, less what rows of one file pay for each other. What a
        caller prefers stays in front.

        Ties keep the order in which they came.
        """
        if len(retrieved.candidates) < 2:
            return retrieved
        fields = feature_rows(question.text, retrieved, self.languages)
        scores = (fields @ self._vector()).tolist()
        ranked = [
            replace(
                retrieved.candidates[number],
                score=scores[number] - PRICE * doublings,
                explanation=self._explained(retrieved.candidates[number], fields[number], doublings),
            )
            for number, doublings in spread(retrieved.candidates, scores)
        ]
        return replace(retrieved, candidates=tuple(ranked), spread=True)

    def _explained(self, candidate: Candidate, values: Floats, doublings: float) -> Explanation | None:
        """The explanation, if the row has one, with the parts of the new score in place of those of the fusion."""
        if candidate.explanation is None:
            return None
        weighed = [
            *((name, float(value), self.weights.get(name, 0.0)) for name, value in zip(FEATURES, values, strict=True)),
            (ROWS_ABOVE, doublings, -PRICE),
        ]
        return replace(
            candidate.explanation,
            parts=tuple(
                ScorePart(
                    name=name, sentence=SENTENCES[name], rank=None, value=value, weight=weight, part=value * weight
                )
                for name, value, weight in weighed
                if value * weight
            ),
        )

    def _vector(self) -> Floats:
        return np.array([self.weights.get(name, 0.0) for name in FEATURES])


class _Files:
    """The rows of each file among all rows: what they have together, said of every row."""

    def __init__(self, paths: Sequence[str]) -> None:
        numbers: dict[str, int] = {}
        self._file = np.array([numbers.setdefault(path, len(numbers)) for path in paths], dtype=np.int64)
        self._order = np.argsort(self._file, kind="stable")
        self._first = np.searchsorted(self._file[self._order], np.arange(len(numbers)))

    def best(self, values: Floats) -> Floats:
        best: Floats = np.maximum.reduceat(values[self._order], self._first)
        return best[self._file]

    def sums(self, values: Floats) -> Floats:
        """Of the file's greatest few values."""
        order = np.lexsort((-values, self._file))
        place = np.arange(len(values)) - self._first[self._file[order]]
        sums: Floats = np.add.reduceat(np.where(place < _FILE_ROWS, values[order], 0.0), self._first)
        return sums[self._file]

    def any(self, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """`held` has shape (rows, any number)."""
        together: NDArray[np.bool_] = np.logical_or.reduceat(held[self._order], self._first, axis=0)
        return together[self._file]


def feature_rows(text: str, retrieved: Retrieved, languages: frozenset[str]) -> Floats:
    """The fields of every row: shape (rows, len(FEATURES)), columns in the order of `FEATURES`."""
    rows = retrieved.candidates
    shape = shape_of(text, languages)
    files = _Files([row.path for row in rows])
    words = wording(text, [row.content for row in rows])
    nearest = 1.0 - (1.0 if retrieved.best_distance is None else retrieved.best_distance)
    cosines = np.array([0.0 if row.distance is None else 1.0 - row.distance for row in rows]).clip(min=0.0)
    sure = shape.understood * float(np.clip(max(cosines.max(initial=0.0), nearest), 0.0, 1.0))
    cosine = cosines * shape.understood
    dense = _over(cosines, nearest) * shape.understood
    bm25 = _over(np.array([row.bm25 or 0.0 for row in rows]), retrieved.greatest_bm25)
    clear = _standing_out(bm25)
    file_words = words.share(files.any(words.held))
    bm25 *= _trust_in_words(file_words, shape)
    file_bm25 = files.sums(bm25) / _FILE_ROWS
    source = np.array([_PROSE.search(row.path) is None for row in rows], dtype=np.float64)
    is_text = np.array([row.layer in VERBATIM_LAYERS for row in rows], dtype=np.float64)
    plain = float(not shape.identifiers) * min(1.0, max(0.0, 2.0 - shape.words / SHORT_QUESTION_WORDS))
    columns: dict[str, Floats] = {
        "cosine": cosine,
        "bm25": bm25,
        "bm25_clear": bm25 * clear,
        "bm25_unsure": bm25 * (1.0 - sure),
        "dense_for_code": dense * source * plain,
        "bm25_for_code": bm25 * source * plain,
        "near_unclear": words.near * (1.0 - clear),
        "near_long": words.near * min(1.0, shape.words / LONG_QUESTION_WORDS),
        "file_text_dense": files.best(dense * is_text),
        "file_entry_dense": files.best(dense * (1.0 - is_text)),
        "file_bm25": file_bm25,
        "file_bm25_clear": file_bm25 * clear,
        "file_words": file_words,
        "file_words_clear": file_words * clear,
        "file_name": _coverage(query_terms(text), [_name_terms(row.path) for row in rows]),
        "symbol_name": _symbol_names(text, rows) if shape.identifiers or describes_code(text) else np.zeros(len(rows)),
        "identifiers": _identifier_shares(shape, rows),
        "prose_for_code": (1.0 - source) * tells_what_code_does(text),
    }
    return np.stack([columns[name] for name in FEATURES], axis=1)


def _over(values: Floats, best: float | None) -> Floats:
    greatest = max(best or 0.0, float(values.max(initial=0.0)))
    return values / greatest if greatest > 0 else values


def _trust_in_words(file_words: Floats, shape: QuestionShape) -> float:
    """How far BM25 is to be believed beside the vectors, 0 to 1, by what the best file holds of the question's words.

    The greatest BM25 is the greatest also where nothing but a name or a number of the question can stand on the pages,
    as when they are in another language. A long question says more words than any page holds.
    """
    held = float(file_words.max(initial=0.0)) * max(1.0, shape.words / SHORT_QUESTION_WORDS)
    return 1.0 - shape.understood * (1.0 - min(1.0, held / FOUND_SHARE) ** 2)


def _standing_out(bm25: Floats) -> float:
    """How far the best is above the mean of the ten best, 0 to 1."""
    return float(1.0 - np.sort(bm25)[::-1][:_BEST_ROWS].mean()) if bm25.any() else 0.0


def _coverage(terms: Sequence[str], held: Sequence[frozenset[str]]) -> Floats:
    """The share of the question's words that each row holds, words that few of the rows hold counting more."""
    asked = frozenset(terms)
    found = [asked & words for words in held]
    rarity = _rarity(found)
    seen = rarity.keys() - {_UNSEEN}
    whole = sum(rarity[word] for word in seen) + rarity[_UNSEEN] * min(len(asked) - len(seen), _MOST_IDENTIFIERS)
    return np.array([sum(rarity[word] for word in words) for words in found]) / (whole or 1.0)


def _symbol_names(text: str, rows: Sequence[Candidate]) -> Floats:
    """Of each row the symbol whose name fits the question best: twice the words that the two share over the words of
    both, words that few of the rows' names hold counting more."""
    asked = frozenset(query_terms(text))
    names = [_symbol_words(row) for row in rows]
    rarity = _rarity([frozenset().union(*words) for words in names])
    unseen = rarity[_UNSEEN]
    whole = sum(rarity.get(word, unseen) for word in asked)

    def fit(words: frozenset[str]) -> float:
        shared = words & asked
        return (
            2 * sum(rarity[word] for word in shared) / (whole + sum(rarity[word] for word in words)) if shared else 0.0
        )

    return np.array([max(map(fit, words), default=0.0) for words in names])


def _rarity(held: Sequence[frozenset[str]]) -> dict[str, float]:
    """The weight of each word by the number of rows that hold it; of a word that none holds under `_UNSEEN`."""
    frequency = Counter(word for words in held for word in words)
    frequency[_UNSEEN] = 0
    return {word: math.log(1 + (len(held) - rows + 0.5) / (rows + 0.5)) for word, rows in frequency.items()}


def _identifier_shares(shape: QuestionShape, rows: Sequence[Candidate]) -> Floats:
    names = [name.removesuffix("()").casefold() for name in shape.identifiers[:_MOST_IDENTIFIERS]]
    if not names:
        return np.zeros(len(rows))
    texts = [f"{row.path}\n{row.title}\n{row.content}".casefold() for row in rows]
    return np.array([sum(map(text.__contains__, names)) for text in texts]) / len(names)


@lru_cache(maxsize=1 << 14)
def _name_terms(path: str) -> frozenset[str]:
    return frozenset(analyse(path.rpartition("/")[2]))


def _symbol_words(row: Candidate) -> tuple[frozenset[str], ...]:
    """The words of the name of each symbol that the row defines or is the entry of."""
    if "symbol_kind" in row.metadata:
        return (_words_of_name(row.title),)
    return tuple(_words_of_name(symbol) for symbol in row.metadata.get("symbols", ()))


@lru_cache(maxsize=1 << 14)
def _words_of_name(symbol: str) -> frozenset[str]:
    """The words in the last part of a qualified name: of one with humps or underscores without the name as a whole."""
    terms = analyse(symbol.rpartition(".")[2])
    return frozenset(terms[1:] or terms)
