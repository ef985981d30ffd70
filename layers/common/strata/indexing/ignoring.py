"""Ignore files, read as git reads them.

A pattern says something about one entry, never about what lies in it: a folder that is left out is not entered, so
nothing in it can be taken back. (pathspec lets a pattern for a folder speak for its contents, which goes wrong
across nested ignore files: `!b/` in `a/.gitignore` would bring back what `*.py` above it leaves out.)

A pattern may be somebody else's: no path takes more steps than its length times the pattern's. Client and server read
ignore files alike; `strata_client.ignoring` and `strata.indexing.ignoring` are the same file, which a test sees to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_STAR = "*"
_NOTHING = re.compile("(?!)")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line: an expression for each part of a path, None for any number of parts (`**`).

    `by_name` patterns look at an entry's name, others at its path below the ignore file's folder.
    """

    parts: tuple[re.Pattern[str] | None, ...]
    by_name: bool
    folders_only: bool
    takes_back: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        return self._match(path.split("/")[-1:] if self.by_name else path.split("/"))

    def _match(self, names: list[str]) -> bool:
        """Only the last `**` ever takes more than it had: what stood before it is matched as early as can be."""
        at = part = 0
        taken_from: tuple[int, int] | None = None
        while at < len(names):
            expression = self.parts[part] if part < len(self.parts) else _NOTHING
            if expression is None:
                part += 1
                if part == len(self.parts):
                    return True
                taken_from = (part, at)
            elif expression.fullmatch(names[at]):
                part, at = part + 1, at + 1
            elif taken_from is None:
                return False
            else:
                part, at = taken_from[0], taken_from[1] + 1
                taken_from = (part, at)
        return part == len(self.parts)


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
    parts = _parts(text.removeprefix("/"))
    return Pattern(parts, by_name, folders_only, takes_back) if parts else None


def _without_final_blanks(text: str) -> str:
    """The text without blanks at its end, unless a backslash keeps the first of them."""
    stripped = text.rstrip(" ")
    if len(stripped) < len(text) and (len(stripped) - len(stripped.rstrip("\\"))) % 2:
        return stripped + " "
    return stripped


def _parts(pattern: str) -> tuple[re.Pattern[str] | None, ...] | None:
    """The glob's parts; None when it can match nothing (an open bracket, a final backslash, an empty part)."""
    parts: list[list[str] | None] = [[]]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "*":
            end = at + len(pattern[at:]) - len(pattern[at:].lstrip("*"))
            whole_part = end - at > 1 and not parts[-1] and pattern[end : end + 1] in ("", "/")
            if whole_part:
                parts[-1] = None
            else:
                _current(parts).append(_STAR)
            at = end
        elif character == "?":
            _current(parts).append(".")
            at += 1
        elif character == "[":
            bracket = _bracket(pattern, at + 1)
            if bracket is None:
                return None
            expression, at = bracket
            _current(parts).append(expression)
        else:
            at += character == "\\"
            if at == len(pattern):
                return None
            if pattern[at] == "/":
                parts.append([])
            else:
                _current(parts).append(re.escape(pattern[at]))
            at += 1
    if any(part == [] for part in parts):
        return None
    return tuple(None if part is None else _compiled(part) for part in parts)


def _current(parts: list[list[str] | None]) -> list[str]:
    part = parts[-1]
    if part is None:
        raise ValueError("a double star stands alone between slashes")
    return part


def _compiled(part: list[str]) -> re.Pattern[str]:
    """What stands between two stars is taken where it comes first, so that no star is tried twice."""
    first, *rest = _split(part)
    between, last = rest[:-1], rest[-1:]
    pieces = [first, *(f"(?>.*?{piece})" for piece in between), *(f".*{piece}" for piece in last)]
    return re.compile("".join(pieces), re.DOTALL)


def _split(part: list[str]) -> list[str]:
    pieces = [""]
    for item in part:
        if item == _STAR:
            pieces.append("")
        else:
            pieces[-1] += item
    return pieces


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
                return (f"[^{inside}]" if inside else "."), at + 1
            return (f"[{inside}]" if inside else "(?!)"), at + 1
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
