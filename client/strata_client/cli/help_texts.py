"""Help texts as their readers need them, on any terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer


def walk(command: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The names and the command of everything under a command of Typer's, itself first."""
    yield names, command
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, *names, name)


def made_readable(command: Any) -> Any:
    """The command and all under it: texts that flow, no type where an option is a switch, `N` for a number."""
    for names, each in walk(command):
        each.help = each.help and flowing(each.help)
        shown = each.get_help_option(typer.Context(each, info_name=" ".join(names)))
        for parameter in [*each.params, *([shown] if shown else [])]:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif parameter.metavar is None and parameter.type_descriptor.annotation is int:
                parameter.metavar = "N"
    return command


def flowing(text: str) -> str:
    """The text with its paragraphs on a line each: a docstring's other line ends are those of its source file.

    >>> flowing("One\\nsentence.\\n\\nExample: strata up")
    'One sentence.\\n\\nExample: strata up'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
