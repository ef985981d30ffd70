from __future__ import annotations

import inspect

import pytest

from strata import errors

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, errors.StrataError)]


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_has_a_sentence_and_a_stable_code(error: type[errors.StrataError]) -> None:
    assert error().message.endswith(".")
    assert error().code == error().code.lower()
    assert error("Said otherwise.").message == "Said otherwise."


def test_the_drawn_tree_names_every_class() -> None:
    drawn = errors.__doc__ or ""
    assert [error.__name__ for error in CLASSES if error.__name__ not in drawn] == []
