"""A piece of any file → its passages."""

from __future__ import annotations

from pathlib import PurePosixPath

from strata.answering.passages.code import code_passages
from strata.answering.passages.passage import Passage
from strata.answering.passages.prose import prose_passages
from strata.answering.passages.python import python_passages

_PROSE_SUFFIXES = frozenset({"", ".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc", ".org", ".text"})
_PROSE_NAMES = frozenset({"license", "readme", "notice", "authors", "changelog", "contributing", "copying"})


def passages(path: str, text: str) -> list[Passage]:
    """The passages of a piece of the file at `path`, in source order; lines of `text` end with a line feed.

    >>> [passage.text for passage in passages("a.md", "# Jobs\\n- A lease lasts 60 s. It can be\\n  renewed.")]
    ['Jobs', 'A lease lasts 60 s.', 'It can be renewed.']
    """
    name = PurePosixPath(path)
    suffix = name.suffix.lower()
    if suffix in (".py", ".pyi"):
        found = python_passages(text)
    elif suffix in _PROSE_SUFFIXES and (suffix or name.name.lower() in _PROSE_NAMES):
        found = prose_passages(text)
    else:
        found = code_passages(text)
    return [passage for passage in found if any(character.isalnum() for character in passage.text)]
