"""Words of a question are found in any form, and count by how rare they are and how near they stand."""

from __future__ import annotations

import pytest

from strata.retrieval.wording import MOST_WORDS, NEAR_CHARACTERS, wording


@pytest.mark.parametrize(
    "beside",
    ["", "é", "счёт", "\u4e2d", "\U0001f600", "é счёт \u4e2d \U0001f600"],
    ids=["ASCII alone", "Latin", "Cyrillic", "Chinese", "beyond the first plane", "all of them"],
)
def test_other_letters_in_a_text_change_nothing(beside: str) -> None:
    """Also words of one letter, of eight and of more, and letters whose last bytes are alike."""
    alike = "".join(chr(ord(letter) + 0x400) for letter in "retry")
    question = "retry x eightlet longestword 7"
    contents = ["retry x; longestwords eightletter", f"{alike} y", "x x longestword", "eightle longestwor", ""]
    plain, mixed = wording(question, contents), wording(question, [f"{text} {beside}" for text in contents])
    assert plain.held.tolist() == mixed.held.tolist()
    assert plain.near.tolist() == mixed.near.tolist()
    assert plain.held.sum(axis=1).tolist() == [4, 0, 2, 0, 0]


@pytest.mark.parametrize(
    ("question", "content"),
    [
        pytest.param("flatten nested dictionaries", "def flattened_nested_dictionary(): ...", id="forms in a name"),
        pytest.param("проверка нового счёта", "Новые счета проверяются: новый счёт.", id="Russian forms"),
        pytest.param("ORA-00942 raised", "raises ORA-00942", id="a code"),
    ],
)
def test_neighbouring_words_are_near_in_any_form(question: str, content: str) -> None:
    found = wording(question, [content, "nothing"])
    assert found.near[0] > 0
    assert found.near[1] == 0


def test_words_far_apart_are_held_but_not_near() -> None:
    found = wording("lock holder", ["the lock" + " " * NEAR_CHARACTERS + "holder", "lock holder"])
    assert found.held.all()
    assert found.near.tolist() == [0.0, 1.0]


def test_rare_words_count_more() -> None:
    found = wording("read archive", ["read", "archive", "read", "read"])
    shares = found.share(found.held)
    assert shares[1] > shares[0] == shares[2]


def test_a_word_is_not_near_itself() -> None:
    assert wording("lock locks", ["lock", "x"]).near.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("question", ["", "?!", "lock"])
@pytest.mark.parametrize("contents", [[], ["", "lock"]])
def test_without_pairs_or_rows_there_is_nothing_near(question: str, contents: list[str]) -> None:
    found = wording(question, contents)
    assert found.near.tolist() == [0.0] * len(contents)
    assert found.held.shape[0] == len(contents)


def test_of_a_long_report_the_first_words_are_looked_for() -> None:
    found = wording(" ".join(f"word{number}x" for number in range(5_000)), ["word0x word1x", "word4999x"])
    assert found.held.shape == (2, MOST_WORDS)
    assert found.near[0] > 0
    assert not found.held[1].any()
