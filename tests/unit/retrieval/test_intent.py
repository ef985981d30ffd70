"""What code does or should do is told from a question and from a heading."""

from __future__ import annotations

import pytest

from strata.retrieval.intent import tells_what_code_does


@pytest.mark.parametrize(
    "text",
    [
        "Returns the open file.",
        "Reject entry points whose name would install a script elsewhere",
        "Tries every mirror once",
        "Squashing migrations raises KeyError",
        "Upload doesn't work with blanks in the name",
        "Возвращает открытый файл",
        "Ошибка при загрузке файла",
        "Is it a bug? " + "The report goes on and says what fails. " * 12,
    ],
)
def test_statements_about_code(text: str) -> None:
    assert tells_what_code_does(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Installation",
        "How do I fix a broken upload?",
        "which function raises KeyError",
        "the error message: what does it mean?",
        "Как исправить ошибку",
        "Использование с Composition API",
    ],
)
def test_questions_and_headings(text: str) -> None:
    assert not tells_what_code_does(text)
