from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.answering.citations import CitationParser, Marker


def parsed(*deltas: str) -> list[str | Marker]:
    """Text and markers of an answer, neighbouring texts joined."""
    parser = CitationParser()
    parts: list[str | Marker] = []
    for delta in deltas:
        parts += parser.feed(delta)
    parts += parser.finish()
    joined: list[str | Marker] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def numbers(*deltas: str) -> list[int]:
    return [number for part in parsed(*deltas) if isinstance(part, Marker) for number in part.numbers]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param(["[[", "4", "]]"], [Marker((4,))], id="double brackets in three pieces"),
        pytest.param(["[1", "2]"], [Marker((12,))], id="a number in two pieces"),
        pytest.param(["[1][", "2", "]t"], [Marker((1,)), Marker((2,)), "t"], id="two markers, then text"),
        pytest.param(["a [1, 2]"], ["a", Marker((1, 2), " ")], id="a list"),
        pytest.param(["a [1", ",", " 2", "]."], ["a", Marker((1, 2), " "), "."], id="a list in pieces"),
        pytest.param(["【", "3", "】"], [Marker((3,))], id="lenticular brackets"),
        pytest.param(["【3†sou", "rce】"], [Marker((3,))], id="lenticular brackets with a dagger"),
        pytest.param(["it ends with ["], ["it ends with ["], id="ends in an open bracket"),
        pytest.param(["it ends with [1"], ["it ends with [1"], id="ends in half a marker"),
        pytest.param(["[[4] x"], ["[", Marker((4,)), " x"], id="one bracket too many"),
        pytest.param(["in [2024] and [x]"], ["in [2024] and [x]"], id="a year and a letter are text"),
        pytest.param([r"a \[1] b"], [r"a \[1] b"], id="escaped"),
        pytest.param(["- [ ] task"], ["- [ ] task"], id="a task list"),
    ],
)
def test_markers_are_found_however_they_are_cut(deltas: list[str], expected: list[str | Marker]) -> None:
    assert parsed(*deltas) == expected


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("use `arr[1]` here", id="inline code"),
        pytest.param("use ``a`[1]`b`` here", id="inline code with backticks"),
        pytest.param("so:\n```python\nx = arr[1]\n```\n", id="fenced block"),
        pytest.param("so:\n~~~\narr[1]\n~~~", id="fenced block of tildes"),
        pytest.param("- so:\n  ```\n  arr[1]\n  ```\n", id="fenced block in a list"),
        pytest.param("```\narr[1]", id="fenced block that never ends"),
        pytest.param("````\n```\narr[1]\n```\n````", id="fence inside a fence"),
    ],
)
def test_code_is_left_alone(answer: str) -> None:
    assert parsed(answer) == [answer]
    assert parsed(*answer) == [answer]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param("`arr[1]` is bad [2]", [2], id="after inline code"),
        pytest.param("```\na[1]\n```\nsee [2]", [2], id="after a fenced block"),
        pytest.param("a ` b [2]\nc ` d [3]", [2, 3], id="lone backticks open nothing"),
        pytest.param("a `" + "x" * 600 + " [2] `", [2], id="a code span that is too long is none"),
        pytest.param("```js [1]``` [2]", [2], id="three backticks inside a line"),
    ],
)
def test_markers_beside_code_are_found(answer: str, expected: list[int]) -> None:
    assert numbers(answer) == expected
    assert numbers(*answer) == expected


_PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *("[1]", "[[2]]", "[1, 2]", "【3】", "【4†x】", "[", "]", "[7", "2]", "arr[1]", ",", "†", "\\"),
                *(
                    "`",
                    "``",
                    "```",
                    "```py",
                    "~~~",
                    "\n",
                    "\n\n",
                    " ",
                    "  ",
                    "\t",
                    "- ",
                    "1. ",
                    "> ",
                    "word",
                    "Привет 🌍",
                ),
            ]
        ),
        st.text(max_size=4),
    ),
    max_size=30,
)


@given(_PIECES, st.data())
def test_any_split_gives_the_same_and_loses_nothing(pieces: list[str], data: st.DataObject) -> None:
    answer = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=12)))
    deltas = [answer[start:end] for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    whole = parsed(answer)
    assert parsed(*deltas) == whole
    assert parsed(*answer) == whole
    text = "".join(part for part in whole if isinstance(part, str))
    assert len(text) <= len(answer)
    if not any(isinstance(part, Marker) for part in whole):
        assert text == answer


def test_ordinary_text_is_not_held_back() -> None:
    parser = CitationParser()
    assert parser.feed("A lease lasts") == ["A lease lasts"]
    assert parser.feed(" 60 seconds.") == [" 60 seconds."]
    assert parser.finish() == []
