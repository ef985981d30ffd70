"""The paired bootstrap: the same for the same seed, sure where the data are sure."""

from __future__ import annotations

import numpy as np
import pytest

from strata_eval.resampling import paired_bootstrap


def test_the_same_scores_differ_by_nothing() -> None:
    found = paired_bootstrap([0.1, 0.9, 0.4], [0.1, 0.9, 0.4])
    assert (found.mean, found.low, found.high) == (0.0, 0.0, 0.0)


def test_a_constant_gain_is_certain() -> None:
    found = paired_bootstrap([0.1, 0.5, 0.3], [0.2, 0.6, 0.4])
    assert (found.mean, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))


def test_the_bounds_are_those_of_the_normal_law_where_it_holds() -> None:
    differences = np.random.default_rng(1).normal(0.02, 0.1, size=2_000)
    found = paired_bootstrap([0.0] * len(differences), differences.tolist())
    error = differences.std() / np.sqrt(len(differences))
    assert found.low == pytest.approx(found.mean - 1.96 * error, abs=error / 5)
    assert found.high == pytest.approx(found.mean + 1.96 * error, abs=error / 5)


def test_the_same_seed_gives_the_same_bounds() -> None:
    before, after = np.random.default_rng(2).random((2, 50)).tolist()
    assert paired_bootstrap(before, after, seed=7) == paired_bootstrap(before, after, seed=7)
    assert paired_bootstrap(before, after, seed=7) != paired_bootstrap(before, after, seed=8)


@pytest.mark.parametrize(("before", "after"), [([], []), ([0.1], [0.1, 0.2])])
def test_scores_of_different_queries_are_refused(before: list[float], after: list[float]) -> None:
    with pytest.raises(ValueError, match="same queries"):
        paired_bootstrap(before, after)
