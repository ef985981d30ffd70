"""The help of every command teaches."""

from __future__ import annotations

import pytest

from strata_client.cli.help_texts import walk
from strata_client.cli.main import command
from tests.support.command_line import Run

COMMANDS = [names for names, each in walk(command()) if not hasattr(each, "commands")]

GROUPS = [names for names, each in walk(command()) if names and hasattr(each, "commands")]


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_teaches_with_an_example(run: Run, names: tuple[str, ...]) -> None:
    outcome = run(*names, "--help")

    assert outcome.status == 0
    assert "Example: " in outcome.out
    assert "--json" in outcome.out
    assert "<bool>" not in outcome.out, "a switch takes no value"


@pytest.mark.parametrize("names", [(), *GROUPS], ids=lambda names: " ".join(("strata", *names)))
def test_the_help_of_a_group_teaches_with_an_example(run: Run, names: tuple[str, ...]) -> None:
    assert "Example: strata " in run(*names, "--help").out


@pytest.mark.parametrize("names", [*COMMANDS, *GROUPS], ids=" ".join)
def test_a_help_text_breaks_its_lines_where_the_terminal_ends(names: tuple[str, ...]) -> None:
    (found,) = [each for path, each in walk(command()) if path == names]
    assert "\n" not in found.help.replace("\n\n", "")


def test_a_group_that_lists_says_how_to_see_what_its_list_can(run: Run) -> None:
    assert "--failed" in run("jobs", "--help").out
