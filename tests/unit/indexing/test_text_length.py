from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from strata.indexing.chunking.chunker import Chunker
from strata.indexing.docs.markdown import parse_markdown
from strata.indexing.text_length import LETTERS_PER_TOKEN, text_counter
from strata.providers.hashed.embedder import HashedEmbedder


@dataclass(frozen=True)
class LettersAreTokens(HashedEmbedder):
    """As a tokenizer takes apart what it was not made for."""

    languages: frozenset[str] = frozenset()

    def count(self, texts: Sequence[str]) -> list[int]:
        return [sum(1 if word.isascii() else len(word) for word in text.split()) for text in texts]


ENGLISH = LettersAreTokens(frozenset({"en"}))


@pytest.mark.parametrize(
    ("embedder", "text", "tokens"),
    [
        pytest.param(ENGLISH, "open the file", 3, id="a language that it knows"),
        pytest.param(ENGLISH, "открыть файл", -(-11 // LETTERS_PER_TOKEN), id="one that it does not know"),
        pytest.param(ENGLISH, "открыть file", 1 + -(-7 // LETTERS_PER_TOKEN), id="both"),
        pytest.param(ENGLISH, "文件", 2, id="letters that are words count as they do"),
        pytest.param(LettersAreTokens(frozenset({"en", "uk"})), "файл", 4, id="an alphabet of one of its languages"),
        pytest.param(LettersAreTokens(), "файл", 4, id="it declares nothing"),
    ],
)
def test_words_that_an_embedder_does_not_know_count_by_their_letters(
    embedder: LettersAreTokens, text: str, tokens: int
) -> None:
    assert text_counter(embedder).count([text]) == [tokens]


def test_a_page_in_an_unknown_language_is_not_cut_into_crumbs() -> None:
    def longest(word: str) -> int:
        page = "\n".join([f"# {word}", *[f"{word} " * 12] * 40])
        (chunks,) = Chunker(counter=text_counter(ENGLISH)).cut([("a.md", parse_markdown("a.md", page).documents)])
        return max(len(chunk.content.split()) for chunk in chunks)

    assert longest("слово") > longest("words") / 2
