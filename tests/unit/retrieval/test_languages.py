"""A question's language is told well enough to know whether an embedder understands it."""

from __future__ import annotations

import pytest

from strata.retrieval.languages import identifiers, known_share, language_shares


@pytest.mark.parametrize(
    ("text", "language"),
    [
        pytest.param("How does the lock work?", "en", id="English"),
        pytest.param("python check file is readonly", "en", id="English without small words"),
        pytest.param("Как работает блокировка?", "ru", id="Russian"),
        pytest.param("Де зберігається ключ їхнього сервісу?", "uk", id="Ukrainian"),
        pytest.param("Wie wird der Schlüssel gespeichert und wo?", "de", id="German"),
        pytest.param("Comment les clés sont-elles stockées dans le coffre ?", "fr", id="French"),
        pytest.param("ロックはどのように動作しますか", "ja", id="Japanese"),
        pytest.param("锁是如何工作的", "zh", id="Chinese"),
        pytest.param("كيف يعمل القفل", "ar", id="Arabic"),
    ],
)
def test_the_language_that_most_of_the_text_is_in(text: str, language: str) -> None:
    shares = language_shares(text)
    assert max(shares, key=lambda name: shares[name]) == language


def test_names_of_code_are_of_no_language() -> None:
    assert language_shares("Где SessionLock.acquire() берёт `lease_until_ms`?") == {"ru": 1.0}


def test_names_alone_count_as_the_script_that_they_are_in() -> None:
    assert language_shares("SessionLock.acquire()") == {"en": 1.0}


@pytest.mark.parametrize("text", ["", "42", "…!?", "\U0001f642"])
def test_text_without_a_letter_has_no_language(text: str) -> None:
    assert language_shares(text) == {}


def test_shares_add_up_to_one() -> None:
    assert sum(language_shares("Что делает retry в этом модуле?").values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("reset_secret fails", ("reset_secret",)),
        ("why does blobSha differ", ("blobSha",)),
        ("call acquire() twice, acquire() again", ("acquire()",)),
        ("see strata/retrieval/fusion.py", ("strata/retrieval/fusion.py",)),
        ("std::vector of `int`", ("std::vector", "int")),
        ("plain words, no names. At all", ()),
    ],
)
def test_names_of_code_are_told_from_words(text: str, names: tuple[str, ...]) -> None:
    assert identifiers(text) == names


def test_a_long_run_of_one_character_takes_no_time() -> None:
    assert language_shares("a" * 200_000) == {"en": 1.0}
    assert identifiers("_" * 20_000 + "." * 20_000) == ()


def test_an_embedder_that_declares_nothing_is_taken_to_understand() -> None:
    assert known_share({"ru": 1.0}, frozenset()) == 1.0
    assert known_share({}, frozenset({"en"})) == 1.0
    assert known_share({"ru": 0.75, "en": 0.25}, frozenset({"en"})) == 0.25
