from __future__ import annotations

from strata.model.chat import Prompt, fenced
from strata.providers.extractive.chat import ExtractiveChat

DOCUMENT = "docs/locks.md\n\n# Locks\n\nA worker holds the lease of a session.\n\nIt runs out after a minute.\n\nElse."


def complete(user: str, max_tokens: int = 50) -> str:
    return ExtractiveChat().complete(Prompt(system="Rules.", user=user, max_tokens=max_tokens)).text


def test_a_passage_is_named_by_the_line_outside_it_that_shares_most_with_it() -> None:
    passage = "The lease runs out: a worker of the session goes on."
    asked = f"{fenced('document', DOCUMENT)}\n\n{fenced('passage', passage)}"
    assert complete(asked) == "docs/locks.md: A worker holds the lease of a session."
    alone = f"{fenced('document', DOCUMENT)}\n\n{fenced('passage', 'Nothing of it.')}"
    assert complete(alone) == "docs/locks.md: # Locks"


def test_a_question_is_repeated_and_something_is_always_said() -> None:
    assert complete(fenced("question", "How long?")) == "How long?"
    assert complete("no fence") == "-"
    assert len(complete(fenced("question", "word " * 500), max_tokens=10)) <= 40


def test_tokens_are_counted() -> None:
    usage = ExtractiveChat().complete(Prompt(system="s" * 8, user="u" * 8, max_tokens=9)).usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 4, 1)
