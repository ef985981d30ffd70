from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.retrieval.fusion import reciprocal_rank_fusion


@pytest.mark.parametrize(
    ("rankings", "expected"),
    [
        pytest.param([], [], id="no list"),
        pytest.param([[1, 2], []], [1, 2], id="one list is empty"),
        pytest.param([[2], [1]], [1, 2], id="tie goes to the smaller id"),
        pytest.param([[1, 2, 3], [3, 2, 1]], [1, 3, 2], id="two ends beat two middles"),
        pytest.param([[9, 1], [9, 2]], [9, 1, 2], id="first in both"),
    ],
)
def test_fusion_orders_chunks(rankings: list[list[int]], expected: list[int]) -> None:
    assert [chunk_id for chunk_id, _ in reciprocal_rank_fusion(rankings)] == expected


def test_weights_scale_a_list() -> None:
    fused = reciprocal_rank_fusion([[1], [2]], weights=[1.0, 3.0])
    assert fused == [(2, pytest.approx(3 / 61)), (1, pytest.approx(1 / 61))]
    assert reciprocal_rank_fusion([[1, 2], [3]], weights=[1.0, 0.0])[:2] == reciprocal_rank_fusion([[1, 2]])


def test_a_chunk_twice_in_a_list_and_a_missing_weight_are_faults() -> None:
    with pytest.raises(ValueError, match="twice"):
        reciprocal_rank_fusion([[1, 1]])
    with pytest.raises(ValueError, match="zip"):
        reciprocal_rank_fusion([[1], [2]], weights=[1.0])


@given(st.lists(st.permutations(range(8)), max_size=4))
def test_fusion_keeps_each_chunk_once_in_falling_order(rankings: list[list[int]]) -> None:
    fused = reciprocal_rank_fusion(rankings)
    assert sorted(chunk_id for chunk_id, _ in fused) == (list(range(8)) if rankings else [])
    assert fused == sorted(fused, key=lambda item: (-item[1], item[0]))
