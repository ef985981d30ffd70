"""What code does or should do is told from a question and from a heading."""

from __future__ import annotations

import pytest

from strata.retrieval.intent import describes_code, tells_what_code_does


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
        "Apply all patches",
        "Dropped support for old servers",
        "Gracefully skip what is not a folder",
        "Stashes the directory and returns its new location",
        "Whether the file is closed",
        "The name of the session cookie",
        "Class for reading one file after another",
        "Uploads are kept for a day.",
        "Файл читается построчно и целиком.",
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
        "Updating the branch",
        "Working with a proxy",
        "In the cloud",
        "The concept of blueprints",
        "Explain how uploads are kept.",
        "Tell me what is kept after an upload.",
        "I want to know where uploads are kept.",
        "Расскажи, где хранятся файлы.",
        "python check if a file is open",
        "v2.0.",
    ],
)
def test_questions_and_headings(text: str) -> None:
    assert not tells_what_code_does(text)


@pytest.mark.parametrize(
    ("text", "describes"),
    [
        pytest.param("Unzip the file", True, id="a verb"),
        pytest.param("The name of the session cookie", True, id="a thing"),
        pytest.param("Raised when the download is too short", True, id="when it is raised"),
        pytest.param("The upload fails on names with blanks", False, id="a fault"),
        pytest.param("Uploads are kept for a day.", False, id="a sentence about no code"),
        pytest.param("What is the name of the session cookie", False, id="a question"),
    ],
)
def test_descriptions_of_code_are_neither_reports_nor_questions(text: str, describes: bool) -> None:
    assert describes_code(text) is describes
