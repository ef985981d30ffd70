from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import InvalidPath, UnknownLayer
from strata.model.corpus import Layer, Span, checked_path


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        pytest.param("src/app.py", "src/app.py", id="plain"),
        pytest.param("./src//app.py", "src/app.py", id="dot and doubled slash"),
        pytest.param("докум/файл 1.md", "докум/файл 1.md", id="Cyrillic and a space"),
        pytest.param("100%/c_.md", "100%/c_.md", id="LIKE wildcards are plain characters"),
        pytest.param(".github/..hidden", ".github/..hidden", id="dots inside a name"),
    ],
)
def test_a_path_is_stored_in_one_form(path: str, stored: str) -> None:
    assert checked_path(path) == stored


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("", id="empty"),
        pytest.param(".", id="only a dot"),
        pytest.param("a/", id="a folder"),
        pytest.param("/etc/passwd", id="absolute"),
        pytest.param("../x.md", id="leaves the project"),
        pytest.param("a/../../b.md", id="leaves it later"),
        pytest.param("a/../b.md", id="stays inside, but is refused all the same"),
        pytest.param("C:/x.md", id="drive letter"),
        pytest.param("C:\\x.md", id="drive letter and backslash"),
        pytest.param("a\\b.md", id="backslash"),
        pytest.param("a\x00b", id="NUL"),
        pytest.param("a\nb", id="line break"),
        pytest.param("\udcff.md", id="undecodable name"),
        pytest.param("a" * 1_001, id="too long"),
        pytest.param("\N{CARD INDEX DIVIDERS}" * 501, id="too many bytes"),
    ],
)
def test_a_path_that_is_none_is_refused_with_a_sentence(path: str) -> None:
    with pytest.raises(InvalidPath) as refused:
        checked_path(path)
    assert refused.value.message.endswith(".")


@given(st.text(max_size=60))
def test_a_stored_path_never_leaves_the_project_and_stays_as_it_is(path: str) -> None:
    try:
        stored = checked_path(path)
    except InvalidPath:
        return
    assert not stored.startswith("/")
    assert ".." not in stored.split("/")
    assert checked_path(stored) == stored


@pytest.mark.parametrize("name", ["D3_SECTION_INDEX", "d3_section_index", "D3", "d3"])
def test_a_layer_has_a_whole_and_a_short_name(name: str) -> None:
    assert Layer.named(name) is Layer.D3_SECTION_INDEX


@pytest.mark.parametrize("name", ["", "D", "D9", "D3_", "C1; DROP TABLE"])
def test_an_unknown_layer_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownLayer, match="D1_DOCUMENT_CATALOG"):
        Layer.named(name)


@pytest.mark.parametrize(("start", "end"), [(0, 1), (2, 1), (-1, -1)])
def test_a_span_is_one_based_and_forward(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="not a span"):
        Span(start=start, end=end)
