from __future__ import annotations

import pytest

from strata.retrieval.naming import MAX_NAMES, MAX_PHRASES, names_in


def texts(question: str) -> tuple[list[str], list[str]]:
    found = names_in(question)
    return [name.text for name in found.names], [phrase.text for phrase in found.phrases]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        pytest.param("where is blob_sha made?", ["blob_sha"], id="snake case"),
        pytest.param("what does HTTPServerError mean", ["HTTPServerError"], id="humps"),
        pytest.param("BlobStore.put_all fails", ["BlobStore.put_all"], id="dotted"),
        pytest.param("call Foo::bar twice", ["Foo::bar"], id="scoped"),
        pytest.param("see src/app/views.py, then stop.", ["src/app/views.py"], id="path before a comma"),
        pytest.param("error ORA-00942 and E1101", ["ORA-00942", "E1101"], id="codes"),
        pytest.param("99933227-08bb-46f5-960c-6a2ec3ddaab4 ?", ["99933227-08bb-46f5-960c-6a2ec3ddaab4"], id="uuid"),
        pytest.param("since version 4.2.1", ["4.2.1"], id="version"),
        pytest.param("почему падает РасчётНалога()", ["РасчётНалога"], id="cyrillic humps"),
        pytest.param("what is `commit`", ["commit"], id="one word in backticks"),
        pytest.param("Where is the lease renewed?", [], id="a sentence"),
        pytest.param("the read-only and/or 429 case, e.g. this one. Next", [], id="prose with marks"),
        pytest.param("blob_sha and `blob_sha` and BLOB_SHA", ["blob_sha"], id="once"),
    ],
)  # fmt: skip
def test_names_are_what_prose_would_not_spell_so(question: str, names: list[str]) -> None:
    assert texts(question)[0] == names


@pytest.mark.parametrize(
    ("question", "phrases"),
    [
        pytest.param('raise "no such  bucket" here', ["no such bucket"], id="blanks are one"),
        pytest.param("«план работ» и “the plan of”", ["план работ", "the plan of"], id="other quotes"),
        pytest.param('an "!!!" and a "', [], id="nothing in quotes"),
        pytest.param('"a b" "A B"', ["a b"], id="once in any case"),
    ],
)
def test_phrases_stand_in_quotes(question: str, phrases: list[str]) -> None:
    assert texts(question)[1] == phrases


def test_a_name_inside_a_phrase_is_found_too() -> None:
    assert texts('"reset blob_sha now"') == (["blob_sha"], ["reset blob_sha now"])


def test_long_questions_give_a_few_names() -> None:
    question = " ".join(f'name_{i} "phrase {i}"' for i in range(50))
    names, phrases = texts(question)
    assert (len(names), len(phrases)) == (MAX_NAMES, MAX_PHRASES)
