"""Wanted files minus indexed files, and which files are wanted at all. Pure.

Which files are not indexed, in the order in which the reasons are looked for:

1. *Denied*: version control, installed packages, caches, lock files, minified files, and what usually holds secrets.
   The lists are `DENIED_FOLDERS` and `DENIED_NAMES`; no ignore file can allow them.
2. *Too large*, *empty* (nothing but blanks), *binary*. An empty `__init__.py` is wanted: that it is there tells which
   names are the package's.
3. *Ignored* by a `.gitignore` or `.strataignore` of the upload itself, at its root or in any folder, as git does it:
   the last matching pattern wins, the deeper file over the higher one, `.strataignore` over the `.gitignore` beside
   it, and nothing can be re-included below an ignored folder. Changes name their paths one by one: for them no ignore
   file counts.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from strata.indexing.reading import looks_binary
from strata.model.corpus import FileEntry

_SPEAKING_NAMES = ("__init__.py", "__init__.pyi")
"""Of files that say something also when they are empty."""
IGNORE_FILES = (".gitignore", ".strataignore")
MAX_IGNORE_FILE_BYTES = 256 * 1024
_MOST_DOUBLE_STARS = 3
"""A pattern becomes a regular expression that may try every way to share a path's folders among its `**`."""

DENIED_FOLDERS: Mapping[str, str] = {
    **dict.fromkeys((".git", ".hg", ".svn", ".bzr"), "It belongs to version control."),
    **dict.fromkeys(("node_modules", "bower_components", ".venv", "site-packages"), "It is an installed package."),
    **dict.fromkeys(
        (
            "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".cache",
            ".eggs", ".terraform", ".aws-sam", ".strata", ".next", ".gradle", "__macosx",
        ),
        "It is in a tool's working folder.",
    ),
    **dict.fromkeys((".ssh", ".gnupg", ".aws"), "It may hold secrets."),
}  # fmt: skip
"""By a folder's name, lower case, anywhere in the path."""

DENIED_NAMES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "poetry.lock",
            "pdm.lock", "uv.lock", "pipfile.lock", "cargo.lock", "composer.lock", "gemfile.lock", "go.sum",
            "flake.lock", "packages.lock.json", ".terraform.lock.hcl",
        ),
        "It is a lock file, written by a tool.",
    ),
    **dict.fromkeys((".ds_store", "thumbs.db", "desktop.ini", "._*"), "It is the desktop's, not the project's."),
    **dict.fromkeys(("*.min.js", "*.min.css", "*.js.map", "*.css.map", "*.pyc"), "It is generated code."),
    **dict.fromkeys(
        (
            ".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk",
            "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", "_netrc", ".pgpass", ".htpasswd", ".pypirc",
            ".npmrc", ".git-credentials", ".dockercfg", "*.tfstate", "*.tfstate.backup",
        ),
        "It may hold secrets.",
    ),
}  # fmt: skip
"""By a file's name, lower case; `*` stands for anything."""

ALLOWED_NAMES = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults")


def denied(path: str) -> str | None:
    """Why a path is never indexed, or None.

    >>> denied("web/node_modules/left-pad/index.js"), denied("src/app.py"), denied(".env.example")
    ('It is an installed package.', None, None)
    """
    *folders, name = path.lower().split("/")
    for folder in folders:
        if reason := DENIED_FOLDERS.get(folder):
            return reason
    if name in ALLOWED_NAMES:
        return None
    if reason := DENIED_NAMES.get(name):
        return reason
    return next((reason for pattern, reason in _DENIED_PATTERNS if fnmatchcase(name, pattern)), None)


_DENIED_PATTERNS = tuple((pattern, reason) for pattern, reason in DENIED_NAMES.items() if "*" in pattern)


def unfit(path: str, content: bytes, *, max_file_bytes: int) -> str | None:
    """Why a file's content is not to be indexed, or None."""
    if len(content) > max_file_bytes:
        return f"It is larger than {max_file_bytes:,} bytes."
    if not content.strip() and path.rpartition("/")[2] not in _SPEAKING_NAMES:
        return "It is empty."
    if looks_binary(content):
        return "It is a binary file."
    return None


class _Pattern(GitIgnoreSpecPattern):
    """One line of an ignore file; `regex` matches a path itself, or a folder with its final slash, not what is below.

    The library's expressions also match below a folder. Git goes down folder by folder instead, which is the only way
    to get `*`, `!*/`, `!*.md` right, and so do we. And stars never try twice: `*a*a*a*b` on a long name would else
    take for ever; what follows a star up to the next one may be taken where it first occurs, so it is made atomic.
    """

    @classmethod
    def from_line(cls, line: str) -> _Pattern:
        """Raises `ValueError` or `re.error`."""
        if line.count("**") > _MOST_DOUBLE_STARS:
            raise ValueError("too many double stars")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # `[[` in a pattern
            return cls(line)  # type: ignore[arg-type]

    def matches(self, path: str) -> bool:
        return self.regex is not None and self.regex.search(path) is not None

    @classmethod
    def pattern_to_regex(cls, pattern: str) -> tuple[str | None, bool | None]:  # type: ignore[override]
        regex, include = super().pattern_to_regex(pattern)
        return (None if regex is None else _atomic(_itself(regex))), include


_STAR = "[^/]*"
_FOLDER = "(?P<ps_d>/)"


def _itself(regex: str) -> str:
    for ending, replacement in ((f"(?:{_FOLDER}|$)", "/?$"), (_FOLDER, "/$"), ("/", "/.")):
        if regex.endswith(ending):
            return regex.removesuffix(ending) + replacement
    return regex


def _atomic(regex: str) -> str:
    first, *rest = regex.split(_STAR)
    pieces = [first]
    for position, piece in enumerate(rest):
        is_last_of_its_segment = "/" in piece.replace("[^/]", "") or position == len(rest) - 1
        pieces.append(f"{_STAR}{piece}" if is_last_of_its_segment else f"(?>{_STAR}?{piece})")
    return "".join(pieces)


@dataclass(slots=True)
class IgnoreRules:
    """The ignore files of one upload: add each, then ask."""

    _patterns: dict[str, list[tuple[str, list[_Pattern]]]] = field(default_factory=dict)
    _folders: dict[str, str | None] = field(default_factory=dict)

    def add(self, path: str, content: bytes) -> list[str]:
        """Take in a `.gitignore` or `.strataignore`; returns the lines that had to be left out.

        Added again under the same path, the later content counts.
        """
        folder, _, name = path.rpartition("/")
        patterns, unusable = [], []
        for line in content.decode("utf-8-sig", "replace").replace("\r\n", "\n").split("\n"):
            try:
                if (pattern := _Pattern.from_line(line)).include is not None:  # else a comment
                    patterns.append(pattern)
            except (ValueError, re.error):
                unusable.append(line[:100])
        kept = [item for item in self._patterns.get(folder, []) if item[0] != name]
        self._patterns[folder] = sorted([*kept, (name, patterns)], key=lambda item: item[0])
        self._folders.clear()
        return unusable

    def ignoring(self, path: str) -> str | None:
        """The ignore file that keeps this path out, or None."""
        if not self._patterns:
            return None
        folder = path.rpartition("/")[0]
        return self._folder_ignored(folder) or self._decision(path, is_folder=False)

    def _folder_ignored(self, folder: str) -> str | None:
        if not folder:
            return None
        if folder not in self._folders:
            above = self._folder_ignored(folder.rpartition("/")[0])
            self._folders[folder] = above or self._decision(folder, is_folder=True)
        return self._folders[folder]

    def _decision(self, path: str, *, is_folder: bool) -> str | None:
        decided_by: str | None = None
        parts = path.split("/")
        for depth in range(len(parts)):
            above = "/".join(parts[:depth])
            for name, patterns in self._patterns.get(above, ()):
                relative = "/".join(parts[depth:]) + ("/" if is_folder else "")
                last = next((pattern for pattern in reversed(patterns) if pattern.matches(relative)), None)
                if last is not None:
                    decided_by = (f"{above}/{name}" if above else name) if last.include else None
        return decided_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What turns the indexed files into the wanted ones; each part is sorted by path.

    `rights` are files whose content is the same and whose `acl` or `last_modified` is not: nothing is parsed for them.
    """

    add: tuple[FileEntry, ...]
    update: tuple[FileEntry, ...]
    rights: tuple[FileEntry, ...]
    keep: tuple[FileEntry, ...]
    delete: tuple[str, ...]

    @property
    def upserts(self) -> tuple[FileEntry, ...]:
        return (*self.add, *self.update)


def plan(wanted: Iterable[FileEntry], indexed: Mapping[str, FileEntry]) -> Plan:
    """Compare by blob, `acl` (as a set) and `last_modified`. Paths in `wanted` are distinct."""
    parts: dict[str, list[FileEntry]] = {"add": [], "update": [], "rights": [], "keep": []}
    paths: set[str] = set()
    for entry in sorted(wanted, key=lambda entry: entry.path):
        paths.add(entry.path)
        before = indexed.get(entry.path)
        if before is None:
            part = "add"
        elif before.blob_sha != entry.blob_sha:
            part = "update"
        elif _rights(before) != _rights(entry):
            part = "rights"
        else:
            part = "keep"
        parts[part].append(entry)
    return Plan(
        **{name: tuple(entries) for name, entries in parts.items()},
        delete=tuple(sorted(indexed.keys() - paths)),
    )


def _rights(entry: FileEntry) -> tuple[object, object]:
    return None if entry.acl is None else frozenset(entry.acl), entry.last_modified
