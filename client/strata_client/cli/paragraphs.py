"""Help texts that fit the reader's terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def walk(command: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The names and the command of everything under a command of Typer's, itself first."""
    yield names, command
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, *names, name)


def flowing(text: str) -> str:
    """The text with its paragraphs on a line each: a docstring's other line ends are those of its source file.

    >>> flowing("One\\nsentence.\\n\\nExample: strata up")
    'One sentence.\\n\\nExample: strata up'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
