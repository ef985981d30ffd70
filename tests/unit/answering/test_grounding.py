from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.answering.events import CitationEvent, DeltaEvent
from strata.answering.grounding import Grounder, Source, last_claim, numbers_in
from strata.model.asking import Answer, Citation, Context
from tests.support.asking import context, piece

LEASE = "# Lock\n\nThe lease of `SessionLock` lasts 60 seconds.\nA holder that dies\nis followed after its lease.\n"


def grounded(of: Context, *deltas: str) -> tuple[Answer | None, str, list[int]]:
    """The answer, the text that a reader saw, and the numbers that were taken out."""
    grounder = Grounder(of)
    events = [event for delta in deltas for event in grounder.feed(delta)]
    events += grounder.finish()
    text = "".join(event.text for event in events if isinstance(event, DeltaEvent))
    answer = grounder.answer()
    if answer is not None:
        assert answer.text == text
        assert [event.citation for event in events if isinstance(event, CitationEvent)] == list(answer.citations)
    return answer, text, grounder.removed


def cited(of: Context, *deltas: str) -> list[Citation]:
    answer, _, _ = grounded(of, *deltas)
    return [] if answer is None else list(answer.citations)


def test_numbers_resolve_to_the_sources_that_were_sent_and_others_are_removed() -> None:
    five = context(*(f"Part {name} is painted green." for name in ("alpha", "beta", "gamma", "delta", "epsilon")))
    answer, text, removed = grounded(
        five, "Part alpha is green [1]. Part epsilon is green [5]. Nothing [7]. Never [0]. Both [1, 9]."
    )
    assert answer is not None
    assert [(citation.n, citation.path) for citation in answer.citations if citation.supported] == [
        (1, "docs/1.md"),
        (5, "docs/5.md"),
    ]
    assert removed == [7, 0, 9]
    assert text == "Part alpha is green [1]. Part epsilon is green [5]. Nothing. Never. Both [1]."


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Green [[1]].", "Green [1]."),
        ("Green 【1】.", "Green [1]."),
        ("Green [1, 2].", "Green [1][2]."),
        ("Green [1][2].", "Green [1][2]."),
    ],
)
def test_every_writing_of_a_marker_is_shown_as_one(written: str, shown: str) -> None:
    _, text, _ = grounded(context("It is green.", "It is green."), *written)
    assert text == shown


def test_a_quote_stands_letter_for_letter_in_its_lines() -> None:
    source = piece(LEASE, start=40)
    citations = cited(context(source), "The lease lasts 60 seconds [1]. If a holder dies it is followed [1].")
    assert [(citation.quote, citation.span.start, citation.span.end) for citation in citations] == [
        ("The lease of `SessionLock` lasts 60 seconds.", 42, 42),
        ("A holder that dies\nis followed after its lease.", 43, 44),
    ]
    lines = source.text.split("\n")
    for citation in citations:
        assert citation.quote in "\n".join(lines[citation.span.start - 40 : citation.span.end - 39])


@pytest.mark.parametrize(
    ("claim", "supported"),
    [
        pytest.param("The lease lasts 60 seconds", True, id="the source's words"),
        pytest.param("The lease lasts two seconds", False, id="another number in words"),
        pytest.param("The lease lasts 90 seconds", False, id="another number"),
        pytest.param("The lease lasts 60s", True, id="a number with its unit"),
        pytest.param("`SessionLock` holds the lease", True, id="the source's identifier"),
        pytest.param("SessionLock's lease lasts 60 seconds", True, id="an identifier's possessive"),
        pytest.param("`JobLock` holds the lease", False, id="another identifier in code"),
        pytest.param("renew_lease lasts 60 seconds", False, id="another identifier in prose"),
        pytest.param("The lease of Amazon lasts 60 seconds", False, id="another name"),
        pytest.param("Uploads are compressed before they are stored", False, id="other words"),
        pytest.param("Yes", False, id="nothing that could be checked"),
    ],
)
def test_a_claim_is_supported_by_what_its_source_says(claim: str, supported: bool) -> None:
    assert Source(piece(LEASE)).supports(claim) is supported


def test_russian_claims_are_compared_by_stems() -> None:
    source = Source(piece("Блокировка сессии действует 60 секунд, её продлевает владелец.", path="docs/lock.md"))
    assert source.supports("Блокировку сессии продлевают владельцы, она действует 60 секунд")
    assert not source.supports("Блокировку сессии продлевают владельцы, она действует 90 секунд")


def test_an_unsupported_claim_is_marked_and_the_rest_stands() -> None:
    answer, _, _ = grounded(context(piece(LEASE)), "The lease lasts 60 seconds [1]. Music calms the holder [1].")
    assert answer is not None
    assert [citation.supported for citation in answer.citations] == [True, False]
    assert not answer.grounded
    assert not answer.abstained


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("The lease lasts 60 seconds.", id="no marker"),
        pytest.param("The lease lasts 60 seconds [9].", id="only a marker of nothing"),
        pytest.param("Music is sound in time [1].", id="only a claim that the source does not hold"),
        pytest.param("", id="no text"),
    ],
)
def test_without_any_support_there_is_no_answer(text: str) -> None:
    assert grounded(context(piece(LEASE)), text)[0] is None


def test_neighbouring_markers_stand_for_the_same_claim() -> None:
    both = context(LEASE, "Leases last 60 seconds, as every lease does.")
    citations = cited(both, "The lease lasts 60 seconds [1][2]. [1]")
    assert [(citation.n, citation.supported) for citation in citations] == [(1, True), (2, True)]


def test_code_in_the_answer_is_no_citation() -> None:
    source = context(piece("values = arr[1]\n", path="src/a.py"))
    answer, text, removed = grounded(source, "The values are `arr[1]` [1].\n```\narr[7]\n```\n")
    assert answer is not None
    assert [citation.n for citation in answer.citations] == [1]
    assert removed == []
    assert text == "The values are `arr[1]` [1].\n```\narr[7]\n```\n"


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("One. Two", "Two"),
        ("Intro:\n\n- first\n- second", "second"),
        ("1. first thing", "first thing"),
        ("See e.g. the lease", "See e.g. the lease"),
        ("Run it:\n```sh\nmake run\n```\n", "make run"),
        ("Soft\nwrapped claim", "Soft\nwrapped claim"),
    ],
)
def test_a_claim_is_the_last_statement(text: str, claim: str) -> None:
    assert last_claim(text) == claim


def test_numbers_have_one_writing() -> None:
    assert numbers_in("10 000, 10,000 and 10_000") == {"10000"}
    assert numbers_in("3.50 and 3,5") == {"3.5"}
    assert numbers_in("sha256, v1.2 and int8 are names") == frozenset()


@given(st.lists(st.integers(0, 30), max_size=6))
def test_the_judgement_does_not_depend_on_the_deltas(cuts: list[int]) -> None:
    text = "The lease lasts 60 seconds [1]. A `SessionLock` [[1]], [9]."
    borders = sorted({min(cut * 2, len(text)) for cut in cuts})
    deltas = [text[a:b] for a, b in zip([0, *borders], [*borders, len(text)], strict=True)]
    assert grounded(context(piece(LEASE)), *deltas) == grounded(context(piece(LEASE)), text)
