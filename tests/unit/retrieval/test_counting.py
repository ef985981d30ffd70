"""Terms of many texts counted together."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from strata.retrieval.analyser import analyse
from strata.retrieval.counting import term_counts

PIECES = st.sampled_from(
    [
        "BlobStore",
        "put_all",
        " ",
        ".",
        "::",
        "-",
        "/",
        "'",
        "\n",
        "C++",
        "C#",
        "c",
        "é",
        "Ёлка",
        "e\u0301",
        "9",
        "\0",
        "_",
    ]
)
TEXTS = st.lists(st.one_of(st.text(max_size=12), st.lists(PIECES, max_size=12).map("".join)), max_size=5)


@given(TEXTS)
def test_texts_counted_together_have_the_terms_of_each_by_itself(texts: list[str]) -> None:
    counted = term_counts(texts)
    assert [each.by_term for each in counted] == [Counter(analyse(text)) for text in texts]
    assert [each.total for each in counted] == [len(analyse(text)) for text in texts]


def test_each_term_stands_once_and_words_are_shared() -> None:
    first, second = term_counts(["reset reset lock", "lock"])
    assert first.words is second.words
    assert len(set(first.words)) == len(first.words)
    assert first.by_term == {"reset": 2, "lock": 1}
    assert second.by_term == {"lock": 1}
