"""Ignore files, read as git reads them.

A pattern says something about one entry, never about what lies in it: a folder that is left out is not entered, so
nothing in it can be taken back. (pathspec lets a pattern for a folder speak for its contents, which goes wrong
across nested ignore files: `!b/` in `a/.gitignore` would bring back what `*.py` above it leaves out.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line. `by_name` patterns look at an entry's name, others at its path below the ignore file's folder."""

    regex: re.Pattern[str]
    by_name: bool
    folders_only: bool
    takes_back: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        return self.regex.fullmatch(path.rpartition("/")[2] if self.by_name else path) is not None


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The patterns of one file; the last one that matches decides."""

    patterns: tuple[Pattern, ...]

    @classmethod
    def parse(cls, text: str) -> IgnoreFile:
        """Lines that are no pattern are passed over."""
        return cls(tuple(pattern for line in text.split("\n") if (pattern := parse_pattern(line))))

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """True: ignored; False: taken back by a `!` line; None: not mentioned. `path` has no final slash."""
        for pattern in reversed(self.patterns):
            if pattern.matches(path, is_folder=is_folder):
                return not pattern.takes_back
        return None


def parse_pattern(line: str) -> Pattern | None:
    """The line's pattern; None for a comment, an empty line, and what can never match.

    >>> parse_pattern("docs/**/*.pdf").matches("docs/a/b.pdf", is_folder=False)
    True
    >>> parse_pattern("build/").matches("build", is_folder=False)
    False
    """
    text = _without_final_blanks(line.removesuffix("\r"))
    if not text or text.startswith("#"):
        return None
    takes_back = text.startswith("!")
    text = text.removeprefix("!")
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    by_name = "/" not in text
    regex = _regex(text.removeprefix("/"))
    return Pattern(re.compile(regex, re.DOTALL), by_name, folders_only, takes_back) if regex else None


def _without_final_blanks(text: str) -> str:
    """The text without blanks at its end, unless a backslash keeps the first of them."""
    stripped = text.rstrip(" ")
    if len(stripped) < len(text) and (len(stripped) - len(stripped.rstrip("\\"))) % 2:
        return stripped + " "
    return stripped


def _regex(pattern: str) -> str | None:
    """The glob as a regular expression; None when it can match nothing (an open bracket, a final backslash)."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "*":
            end = at + len(pattern[at:]) - len(pattern[at:].lstrip("*"))
            whole_part = end - at > 1 and (at == 0 or pattern[at - 1] == "/") and pattern[end : end + 1] in ("", "/")
            if not whole_part:
                parts.append("[^/]*")
            elif end == len(pattern):
                parts.append(".*")
            else:
                parts.append("(?:.*/)?")
                end += 1
            at = end
        elif character == "?":
            parts.append("[^/]")
            at += 1
        elif character == "[":
            bracket = _bracket(pattern, at + 1)
            if bracket is None:
                return None
            part, at = bracket
            parts.append(part)
        elif character == "\\":
            if at + 1 == len(pattern):
                return None
            parts.append(re.escape(pattern[at + 1]))
            at += 2
        else:
            parts.append(re.escape(character))
            at += 1
    return "".join(parts) or None


def _bracket(pattern: str, at: int) -> tuple[str, int] | None:
    """The bracket expression that begins before `at`, and where the pattern goes on; None when it does not close."""
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    items: list[str] = []
    first = True
    for _ in range(len(pattern)):
        if pattern[at : at + 1] == "]" and not first:
            inside = "".join(items)
            if negated:
                return f"[^/{inside}]", at + 1
            return (f"(?!/)[{inside}]" if inside else "(?!)"), at + 1
        first = False
        if pattern.startswith("[:", at) and (close := pattern.find(":]", at + 2)) > 0:
            if pattern[at + 2 : close] not in POSIX_CLASSES:
                return None
            items.append(POSIX_CLASSES[pattern[at + 2 : close]])
            at = close + 2
            continue
        low = _literal(pattern, at)
        if low is None:
            return None
        character, at = low
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            high = _literal(pattern, at + 1)
            if high is None:
                return None
            last, at = high
            if character <= last:
                items.append(f"{re.escape(character)}-{re.escape(last)}")
        else:
            items.append(re.escape(character))
    return None


def _literal(pattern: str, at: int) -> tuple[str, int] | None:
    """The character at this place of a bracket, a backslash before it taken off; None at the pattern's end."""
    if pattern[at : at + 1] == "\\":
        at += 1
    return (pattern[at], at + 1) if at < len(pattern) else None
