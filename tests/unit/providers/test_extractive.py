from __future__ import annotations

import pytest

from strata.answering.grounding import Grounder
from strata.model.asking import Answer, Context
from strata.providers.extractive.generator import MAX_STATEMENTS, ExtractiveGenerator
from tests.support.asking import context, piece

GUIDE = (
    "# Sessions\n\nA session is a named index of one project's files. The lease on a session lasts 60 seconds.\n\n"
    "- Its owner may change the readers.\n- A reader may ask questions [1] about `rows[2]`.\n"
)
CODE = (
    'LEASE_S = 60\n\n\nclass SessionLock:\n    """Holds a session for one worker."""\n\n'
    '    def renew_lease(self, fence: int) -> None:\n        """Renew the lease of the session."""\n'
    "        raise LockLost(fence)\n"
)


def said(of: Context) -> str:
    return "".join(ExtractiveGenerator().generate(of))


def judged(of: Context) -> Answer | None:
    grounder = Grounder(of)
    for delta in ExtractiveGenerator().generate(of):
        list(grounder.feed(delta))
    list(grounder.finish())
    assert grounder.removed == []
    return grounder.answer()


@pytest.mark.parametrize(
    ("question", "lead"),
    [
        ("How long does the lease last?", "The lease on a session lasts 60 seconds. [1]"),
        ("What is a session?", "A session is a named index of one project's files. [1]"),
        ("Who may change the readers?", "Its owner may change the readers. [1]"),
    ],
)
def test_the_lead_is_the_sentence_that_answers(question: str, lead: str) -> None:
    assert said(context(GUIDE, text=question)).split("\n")[0] == lead


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        pytest.param("What does renew_lease do?", "Renew the lease of the session.", id="documentation"),
        pytest.param("What is LEASE_S?", "`LEASE_S = 60`", id="constant"),
        pytest.param("Where is LockLost raised?", "`raise LockLost(fence)`", id="line with the identifier"),
    ],
)
def test_code_is_answered_from_documentation_signatures_and_lines(question: str, expected: str) -> None:
    of = context(piece(CODE, path="src/lock.py"), text=question)
    assert expected in said(of)
    answer = judged(of)
    assert answer is not None
    assert answer.grounded


def test_several_sources_are_cited_where_they_help() -> None:
    of = context(GUIDE, "The lease is renewed by its holder every 20 seconds.", text="How does the lease work?")
    answer = judged(of)
    assert answer is not None
    assert {citation.n for citation in answer.citations} == {1, 2}
    assert answer.grounded


def test_brackets_of_a_source_are_no_citations() -> None:
    of = context(GUIDE, text="Who may ask questions about rows?")
    text = said(of)
    assert r"questions \[1] about `rows[2]`. [1]" in text
    answer = judged(of)
    assert answer is not None
    assert answer.grounded


def test_an_answer_is_short_and_says_nothing_twice() -> None:
    same = "The lease lasts 60 seconds."
    text = said(context(same, same, *(f"The lease of part {n} lasts {n} seconds." for n in range(20))))
    lines = [line for line in text.split("\n") if line]
    assert 1 < len(lines) <= MAX_STATEMENTS
    assert sum(same in line for line in lines) == 1


@pytest.mark.parametrize(
    "question",
    [
        "what is music?",
        "столица Франции?",
        "What is this?",
        "Что это?",
        "How do I bake a chocolate cake?",
        "🙂 session?!",
    ],
)
def test_it_says_nothing_where_the_sources_do_not_answer(question: str) -> None:
    of = context(GUIDE, piece(CODE, path="src/lock.py"), text=question)
    assert said(of) == "" or question.startswith("🙂")


def test_a_russian_question_about_an_identifier_is_answered_from_english_sources() -> None:
    assert "Renew the lease" in said(context(piece(CODE, path="src/lock.py"), text="Что делает renew_lease?"))
    assert said(context(piece(CODE, path="src/lock.py"), text="Что делает блокировка?")) == ""


def test_a_russian_answer_matches_other_forms_of_a_word() -> None:
    source = "Блокировку сессии продлевает владелец. Срок блокировки 60 секунд."
    assert said(context(source, text="Кто продлевает блокировки сессий?")).startswith("Блокировку сессии продлевает")


def test_deltas_are_small() -> None:
    deltas = list(ExtractiveGenerator().generate(context(GUIDE)))
    assert len(deltas) > 1
    assert all(len(delta.split()) <= 6 for delta in deltas)


def test_every_answer_is_grounded_whatever_the_source() -> None:
    awkward = (
        "The lease `a ` b lasts [3] 60 s; see 【4】 and ``x`y`` lasts.\n\n"
        "| lease | 60 |\n|---|---|\n| lease | lasts \\| long |\n\n"
        "* The lease **lasts** <b>60</b> s\n> The lease\n> lasts\n\n```\nlease = arr[1]\n```\n"
    )
    for path in ("a.md", "a.py", "a.ts", "a.yaml"):
        answer = judged(context(piece(awkward, path=path)))
        if answer is not None:
            assert answer.grounded
            assert all(citation.n == 1 for citation in answer.citations)


def test_links_are_shown_by_their_words() -> None:
    of = context("See [the lease guide](https://example.org/#eNqFUU) on how long a lease lasts: 60 seconds.")
    assert said(of) == "See the lease guide on how long a lease lasts: 60 seconds. [1]"
    answer = judged(of)
    assert answer is not None
    assert answer.grounded
    assert answer.citations[0].quote.startswith("See [the lease guide](https://example.org/#eNqFUU) on")


@pytest.mark.parametrize(
    "echo",
    [
        pytest.param('QUESTION = "How long does the lease on a session last?"\n', id="a constant"),
        pytest.param("# How long does the lease on a session last?\nask()\n", id="a comment"),
    ],
)
def test_a_passage_that_only_repeats_the_question_answers_nothing(echo: str) -> None:
    pieces = (piece(echo, n=1, path="src/demo.py"), piece(GUIDE, n=2, path="docs/guide.md"))
    answer = said(context(*pieces, text="How long does the lease on a session last?"))
    assert answer.startswith("The lease on a session lasts 60 seconds. [2]")
    assert "[1]" not in answer
