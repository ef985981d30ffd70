"""Lessons → weights of `strata.retrieval.features`.

A question's loss is the cross-entropy of its right file among the files that were found (each by its best row), and,
where the set knows the right lines, of the right rows among the rows. Sets count alike, whatever their number of
questions; those that were made of another set count by half. Weights of evidence are kept from going below 0, so that
more evidence never lowers a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strata.retrieval.features import FEATURES

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
SIGNED = frozenset({"bm25_for_code", "prose_for_code"})
"""Fields that may count against a row."""
QUESTIONS_OF_A_SET = 300
MOST_ROWS = 60
REGULARISATION = 0.00003
GOLDEN_SHARE = 0.3
DERIVED_SHARE = 0.5
_MOST_STEPS = 40
_ENOUGH = 1e-5
_ABSENT = -1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One question: the fields of its rows, shape (rows, fields), their files, and which of them are right."""

    fields: Floats
    files: tuple[str, ...]
    right_file: Marks
    right_row: Marks


@dataclass(frozen=True, slots=True)
class _Slope:
    loss: float
    gradient: Floats
    curvature: Floats

    def __add__(self, other: _Slope) -> _Slope:
        return _Slope(self.loss + other.loss, self.gradient + other.gradient, self.curvature + other.curvature)

    def times(self, factor: float) -> _Slope:
        return _Slope(self.loss * factor, self.gradient * factor, self.curvature * factor)


class Pack:
    """Lessons as arrays: (questions, rows, fields), shorter lists filled up."""

    def __init__(self, lessons: Sequence[Lesson], *, share: float = 1.0) -> None:
        order = np.random.default_rng(0).permutation(len(lessons))[:QUESTIONS_OF_A_SET]
        chosen = [lessons[number] for number in order if lessons[number].files]
        count, rows = len(chosen), min(MOST_ROWS, max((len(lesson.files) for lesson in chosen), default=1))
        self.share = share
        self._fields = np.zeros((count, rows, len(FEATURES)))
        self._present = np.zeros((count, rows), dtype=np.bool_)
        self._right_file, self._right_row = self._present.copy(), self._present.copy()
        self._file = np.zeros((count, rows), dtype=np.int64)
        for number, lesson in enumerate(chosen):
            length = min(rows, len(lesson.files))
            self._fields[number, :length] = lesson.fields[:length]
            self._present[number, :length] = True
            self._right_file[number, :length] = lesson.right_file[:length]
            self._right_row[number, :length] = lesson.right_row[:length]
            names = {name: position for position, name in enumerate(dict.fromkeys(lesson.files[:length]))}
            self._file[number] = number * rows + rows - 1
            self._file[number, :length] = [number * rows + names[name] for name in lesson.files[:length]]
        names_of_files, place = np.unique(self._file, return_inverse=True)
        self._place = place.reshape(self._file.shape)
        self._by_file = np.argsort(self._place, axis=None, kind="stable")
        self._first_of_file = np.searchsorted(self._place.ravel()[self._by_file], np.arange(len(names_of_files)))

    def slope(self, weights: Floats) -> _Slope:
        scores = np.where(self._present, self._fields @ weights, _ABSENT)
        best = np.maximum.reduceat(scores.ravel()[self._by_file], self._first_of_file)
        leading = (scores == best[self._place]) & self._present
        by_file = self._cross_entropy(scores, leading, self._right_file)
        return by_file + self._cross_entropy(scores, self._present, self._right_row).times(GOLDEN_SHARE)

    def _cross_entropy(self, scores: Floats, among: Marks, right: Marks) -> _Slope:
        """-log(share of the right rows), a mean over the questions that have right and wrong ones.

        The curvature is that of the softmax over all rows, which is never below the loss's own.
        """
        size = len(FEATURES)
        usable = (among & right).any(axis=1) & (among & ~right).any(axis=1)
        if not usable.any():
            return _Slope(0.0, np.zeros(size), np.zeros((size, size)))
        masked, fields = np.where(among, scores, _ABSENT)[usable], self._fields[usable]
        shares = np.exp(masked - masked.max(axis=1, keepdims=True)) * among[usable]
        shares /= shares.sum(axis=1, keepdims=True)
        wanted = shares * right[usable]
        reached = np.maximum(wanted.sum(axis=1, keepdims=True), 1e-12)
        flat = fields.reshape(-1, size)
        means = np.matmul(shares[:, None, :], fields)[:, 0]
        gradient = (shares - wanted / reached).ravel() @ flat
        curvature = (flat * shares.ravel()[:, None]).T @ flat - means.T @ means
        count = float(usable.sum())
        return _Slope(float(-np.log(reached).sum()) / count, gradient / count, curvature / count)


def learn(packs: Sequence[Pack]) -> dict[str, float]:
    """The weights that serve these sets best, by Newton's method. The same packs give the same weights."""
    lower = np.array([-np.inf if name in SIGNED else 0.0 for name in FEATURES])
    weights = np.array([3.0 if name in {"cosine", "bm25"} else 0.0 for name in FEATURES])
    slope = _slope(packs, weights)
    for _ in range(_MOST_STEPS):
        wanted = _least(slope, weights, lower)
        length = 1.0
        while (found := _slope(packs, weights + length * (wanted - weights))).loss > slope.loss and length > _ENOUGH:
            length /= 2
        gained = slope.loss - found.loss
        if gained <= 0:
            break
        weights, slope = weights + length * (wanted - weights), found
        if gained < _ENOUGH:
            break
    return {name: round(float(weight), 3) for name, weight in zip(FEATURES, weights, strict=True)}


def _slope(packs: Sequence[Pack], weights: Floats) -> _Slope:
    size = len(weights)
    total = sum(
        (pack.slope(weights).times(pack.share) for pack in packs), _Slope(0.0, np.zeros(size), np.zeros((size, size)))
    )
    mean = total.times(1.0 / (sum(pack.share for pack in packs) or 1.0))
    return mean + _Slope(
        REGULARISATION / 2 * float(weights @ weights), REGULARISATION * weights, REGULARISATION * np.eye(size)
    )


def _least(slope: _Slope, weights: Floats, lower: Floats) -> Floats:
    """Where the parabola through this point is lowest within the bounds, by one coordinate after another."""
    least = weights.copy()
    gradient = slope.gradient.copy()
    for _ in range(300):
        moved = 0.0
        for number in range(len(least)):
            value = max(least[number] - gradient[number] / slope.curvature[number, number], lower[number])
            step = value - least[number]
            if step:
                gradient += step * slope.curvature[:, number]
                least[number] = value
                moved = max(moved, abs(step))
        if moved < _ENOUGH:
            break
    return least
