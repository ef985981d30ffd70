from __future__ import annotations

from typing import Any

import pytest

from strata.errors import InvalidPath, InvalidRequest, UnknownLayer
from strata.model.asking import Filter
from strata.model.corpus import EMBEDDED_LAYERS, Layer
from strata.retrieval.filters import (
    DEFAULT_LAYERS,
    LAYER_RANKS,
    MAX_FILTER_VALUES,
    checked_filter,
    checked_paths,
    has_preferences,
    like_pattern,
    looks_like_test,
)
from tests.support.chunk_search import like


def test_values_are_checked_named_whole_and_kept_once_in_order() -> None:
    assert checked_filter(
        layers=["d3", "C0_SOURCE_CHUNKS", "D3"], path_prefixes=["./src/", "docs", "src/"], prefer_non_tests=True
    ) == Filter(
        layers=(Layer.D3_SECTION_INDEX, Layer.C0_SOURCE_CHUNKS), path_prefixes=("src/", "docs"), prefer_non_tests=True
    )


@pytest.mark.parametrize(
    ("values", "error"),
    [
        pytest.param({"layers": ["D9"]}, UnknownLayer, id="an unknown layer"),
        pytest.param({"path_prefixes": [""]}, InvalidPath, id="an empty prefix"),
        pytest.param({"exclude_path_prefixes": ["./"]}, InvalidPath, id="a prefix that is the root"),
        pytest.param({"path_prefixes": ["/etc"]}, InvalidPath, id="an absolute prefix"),
        pytest.param({"prefer_path_prefixes": ["a/../b"]}, InvalidPath, id="a prefix that climbs"),
        pytest.param({"path_prefixes": ["a\x00"]}, InvalidPath, id="a NUL"),
        pytest.param({"path_prefixes": ["a\ud800"]}, InvalidPath, id="half a character"),
        pytest.param({"path_prefixes": ["a" * 1_001]}, InvalidPath, id="a prefix longer than any path"),
        pytest.param({"exclude_like_patterns": [""]}, InvalidRequest, id="an empty pattern"),
        pytest.param({"exclude_like_patterns": ["a\\"]}, InvalidRequest, id="a pattern that ends in an escape"),
        pytest.param({"prefer_like_patterns": ["\x00"]}, InvalidRequest, id="a NUL in a pattern"),
        pytest.param({"prefer_like_patterns": ["%" * 1_001]}, InvalidRequest, id="an endless pattern"),
        pytest.param({"path_prefixes": ["a"] * (MAX_FILTER_VALUES + 1)}, InvalidRequest, id="too many values"),
    ],
)
def test_filter_refuses(values: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        checked_filter(**values)


def test_paths_are_looked_for_in_the_form_in_which_they_are_stored() -> None:
    decomposed, composed = "docs/e\u0301te\u0301", "docs/\u00e9t\u00e9"
    found = checked_filter(
        path_prefixes=[decomposed, composed], exclude_path_prefixes=[f"./{decomposed}/"],
        exclude_like_patterns=[f"{decomposed}%"], prefer_path_prefixes=[decomposed],
        prefer_like_patterns=[f"%{decomposed}"],
    )  # fmt: skip
    assert found == Filter(
        path_prefixes=(composed,), exclude_path_prefixes=(f"{composed}/",), exclude_like_patterns=(f"{composed}%",),
        prefer_path_prefixes=(composed,), prefer_like_patterns=(f"%{composed}",),
    )  # fmt: skip
    assert checked_paths([f"{decomposed}.md", f"{composed}.md"]) == (f"{composed}.md",)


def test_pattern_may_end_in_an_escaped_backslash() -> None:
    assert checked_filter(exclude_like_patterns=["a\\\\"]).exclude_like_patterns == ("a\\\\",)


@pytest.mark.parametrize("prefix", ["nfs_tools/", "100%/", "a\\b/", "a\\", "\\%_", "plain"])
def test_prefix_becomes_a_pattern_that_means_it_literally(prefix: str) -> None:
    pattern = like_pattern(prefix)
    assert like(pattern, prefix)
    assert like(pattern, prefix + "more/x.py")
    for other in (prefix.replace("_", "X"), prefix.replace("%", "0"), prefix.replace("\\", "/"), prefix[1:]):
        assert like(pattern, other) == other.startswith(prefix)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/a.py", True),
        ("pkg/test/data.json", True),
        ("web/__tests__/x.ts", True),
        ("spec/models/user.rb", True),
        ("test_a.py", True),
        ("src/test_a.py", True),
        ("src/a_test.go", True),
        ("src/a.spec.ts", True),
        ("src/a.test.tsx", True),
        ("src/conftest.py", True),
        ("src/tests.py", True),
        ("src/UserServiceTest.java", True),
        ("src/latest.py", False),
        ("src/contest/x.py", False),
        ("src/attest.go", False),
        ("docs/testing.md", False),
        ("src/testimonials.py", False),
        ("src/inspect.py", False),
    ],
)
def test_paths_of_tests(path: str, expected: bool) -> None:
    assert looks_like_test(path) is expected


def test_exact_paths_are_made_as_they_are_stored_and_blank_ones_dropped() -> None:
    assert checked_paths(["", " ", "./a//b.py", "a/b.py", " c.md "]) == ("a/b.py", "c.md")
    with pytest.raises(InvalidPath):
        checked_paths(["../x"])
    with pytest.raises(InvalidRequest):
        checked_paths([f"{number}.md" for number in range(101)])


def test_every_layer_has_a_rank_and_only_wishes_are_preferences() -> None:
    assert set(LAYER_RANKS) == set(Layer)
    assert not has_preferences(Filter(path_prefixes=("a",), exclude_like_patterns=("b",)))
    assert has_preferences(Filter(prefer_non_tests=True))
    assert has_preferences(Filter(prefer_like_patterns=("a%",)))


def test_what_a_search_covers_by_itself_is_embedded() -> None:
    assert set(DEFAULT_LAYERS) <= EMBEDDED_LAYERS
