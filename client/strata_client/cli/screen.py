"""What goes where: results to stdout, everything else to stderr; colour and tables on a terminal only."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text


class Screen:
    """One command's output. With `as_json` stdout holds one JSON value and nothing else."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self.err = Console(file=sys.stderr, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """A word on how it goes, for the person who waits."""
        self.err.print(Text(printable(text), style="dim"))

    def warn(self, text: str) -> None:
        self.err.print(Text(printable(text), style="yellow"))

    def fail(self, text: str) -> None:
        """The one sentence that an error is worth."""
        self.err.print(Text(" ".join(printable(text).split()), style="red"))

    def result(self, value: Any) -> None:
        """The command's JSON value."""
        is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        text = json.dumps(value, ensure_ascii=not is_utf8, indent=2 if self.out.is_terminal else None)
        sys.stdout.write(text.encode("utf-8", "replace").decode() + "\n")
        sys.stdout.flush()

    def line(self, text: str = "", *, style: str = "") -> None:
        """A line of the result for a person."""
        self.out.print(Text(printable(text), style=style))

    def write(self, text: str) -> None:
        """A piece of a line, shown at once."""
        sys.stdout.write(printable(text))
        sys.stdout.flush()

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, headed: bool = False) -> None:
        """A table on a terminal; elsewhere one line a row, tab between the fields, without the header unless
        `headed`."""
        if self.out.is_terminal:
            table = Table(box=None, pad_edge=False, header_style="bold")
            for column in columns:
                table.add_column(column, overflow="fold")
            for row in rows:
                table.add_row(*(escape(one_line(field)) for field in row))
            self.out.print(table, soft_wrap=False)
        else:
            for row in (columns, *rows) if headed else rows:
                self.write("\t".join(one_line(field) for field in row) + "\n")


def one_line(text: str) -> str:
    """The text on one line, for a field of a table or a name that may come from somebody's file.

    >>> one_line("a\\n b.md")
    'a b.md'
    """
    return " ".join(printable(text).split())


def printable(text: str) -> str:
    """The text without what could steer a terminal (it may come from somebody's file) or can't be encoded.

    >>> printable("a\\x1b[31mred\\tb")
    'a�[31mred\\tb'
    """
    kept = "".join(character if _is_harmless(character) else "\N{REPLACEMENT CHARACTER}" for character in text)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return kept.encode(encoding, "replace").decode(encoding)


def _is_harmless(character: str) -> bool:
    code = ord(character)
    if code < 32:
        return character in "\n\t"
    return not (127 <= code < 160 or 0xD800 <= code <= 0xDFFF or code in _DIRECTION_CONTROLS)


_DIRECTION_CONTROLS = frozenset({*range(0x202A, 0x202F), *range(0x2066, 0x206A)})
"""Characters that reorder the text around them: a file's name or a quote could pretend to be something else."""


def plural(count: int, noun: str) -> str:
    """
    >>> plural(1, "file"), plural(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def bytes_text(count: int) -> str:
    """
    >>> bytes_text(900), bytes_text(45_000), bytes_text(3_400_000)
    ('900 B', '45 KB', '3.4 MB')
    """
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.0f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
