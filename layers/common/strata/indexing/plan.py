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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from strata.indexing.ignoring import IgnoreFile
from strata.indexing.reading import looks_binary
from strata.model.corpus import FileEntry

SPEAKING_NAMES = ("__init__.py", "__init__.pyi")
"""Of files that say something also when they are empty."""
IGNORE_FILES = (".gitignore", ".strataignore")
MAX_IGNORE_FILE_BYTES = 256 * 1024

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
    if not content.strip() and path.rpartition("/")[2] not in SPEAKING_NAMES:
        return "It is empty."
    if looks_binary(content):
        return "It is a binary file."
    return None


@dataclass(slots=True)
class IgnoreRules:
    """The ignore files of one upload: add each, then ask."""

    _files: dict[str, dict[str, IgnoreFile]] = field(default_factory=dict)
    _folders: dict[str, str | None] = field(default_factory=dict)

    def add(self, path: str, content: bytes) -> None:
        """Take in a `.gitignore` or `.strataignore`. Added again under the same path, the later content counts."""
        folder, _, name = path.rpartition("/")
        files = {**self._files.get(folder, {}), name: IgnoreFile.parse(content.decode("utf-8-sig", "replace"))}
        self._files[folder] = dict(sorted(files.items()))
        self._folders.clear()

    def ignoring(self, path: str) -> str | None:
        """The ignore file that keeps this path out, or None."""
        if not self._files:
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
            above, below = "/".join(parts[:depth]), "/".join(parts[depth:])
            for name, file in self._files.get(above, {}).items():
                verdict = file.verdict(below, is_folder=is_folder)
                if verdict is not None:
                    decided_by = (f"{above}/{name}" if above else name) if verdict else None
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
