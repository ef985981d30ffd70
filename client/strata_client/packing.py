"""A project's folder → one tar.gz snapshot, the same bytes for the same tree."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from strata_client.errors import PackingError
from strata_client.ignoring import IgnoreFile
from strata_client.wire import PathReason

MAX_PATH_CHARACTERS = 1_000
IGNORE_FILES = (".gitignore", ".strataignore")
"""Read in every folder; the second one has the last word."""
NEVER_SENT: Mapping[str, str] = {
    **dict.fromkeys((".git", ".hg", ".svn", ".bzr", "CVS"), "version control data"),
    ".strata": "Strata's own data",
    **dict.fromkeys((".venv", "node_modules", ".tox", ".nox", ".eggs"), "installed packages"),
    **dict.fromkeys(
        ("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".import_linter_cache"), "a cache"
    ),
    ".DS_Store": "the file manager's data",
}
"""Names that stay at home in any folder, and why."""
SECRET_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore",
    "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", ".pypirc", ".npmrc", ".htpasswd", ".pgpass",
)  # fmt: skip
HARMLESS_NAMES = (".env.example", ".env.sample", ".env.template", ".env.dist")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingLimits:
    """What one snapshot may hold; the defaults are those of a deployment's uploads."""

    max_file_bytes: int = 2 * 1024 * 1024
    max_files: int = 100_000
    max_total_bytes: int = 2 * 1024 * 1024 * 1024
    max_archive_bytes: int = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A packed folder. `archive` is removed when `pack` ends; `skipped` names folders by a final slash."""

    archive: Path
    archive_bytes: int
    files: int
    total_bytes: int
    skipped: tuple[PathReason, ...]


@contextmanager
def pack(
    root: Path, *, limits: PackingLimits | None = None, on_file: Callable[[int], None] | None = None
) -> Iterator[Snapshot]:
    """Pack the folder into a temporary archive, which is there until the block ends.

    Ignore files count as in git: those of the folder, of every folder in it, and of the folders above it up to the
    repository's root. Links are never followed. Entries are sorted, names are Unicode NFC with `/`; of a file's
    state only its bytes and the second of its last change go in. `on_file` hears the number of files so far.

    Raises `PackingError` when `root` is no readable folder, when nothing is left to send, or above the caps on
    count and size; a file above its own cap is skipped.
    """
    limits = limits or PackingLimits()
    require_folder(root)
    skipped: list[PathReason] = []
    files = total_bytes = 0
    with tempfile.TemporaryDirectory(prefix="strata-") as folder:
        archive = Path(folder) / "snapshot.tar.gz"
        with (
            archive.open("wb") as raw,
            gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            for found in walk(root, max_file_bytes=limits.max_file_bytes):
                if isinstance(found, FoundFile):
                    files += 1
                    total_bytes += len(found.content)
                    if files > limits.max_files or total_bytes > limits.max_total_bytes:
                        raise PackingError(
                            f"{root} holds more than {limits.max_files:,} files or {limits.max_total_bytes:,} bytes; "
                            "leave folders out with a .strataignore file."
                        )
                    tar.addfile(_entry(found), io.BytesIO(found.content))
                    if on_file:
                        on_file(files)
                else:
                    skipped.append(found)
        archive_bytes = archive.stat().st_size
        if not files:
            raise PackingError(f"{root} holds no file to index: {_why_nothing(skipped)}")
        if archive_bytes > limits.max_archive_bytes:
            raise PackingError(
                f"The packed folder has {archive_bytes:,} bytes, more than the {limits.max_archive_bytes:,} that one "
                "upload may have; leave folders out with a .strataignore file."
            )
        yield Snapshot(
            archive=archive,
            archive_bytes=archive_bytes,
            files=files,
            total_bytes=total_bytes,
            skipped=tuple(skipped),
        )


def require_folder(root: Path) -> None:
    """Raises `PackingError` for what is no folder."""
    if not root.is_dir():
        raise PackingError(f"{root} is not a folder; name the project's folder.")


def _why_nothing(skipped: Sequence[PathReason]) -> str:
    if not skipped:
        return "it is empty."
    first = skipped[0]
    return f"all {len(skipped)} entries are left out, the first, {first['path']!r}, because: {first['reason']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file to send: its path in the snapshot, its bytes, the second of its last change."""

    path: str
    content: bytes
    modified_s: int


def walk(root: Path, *, max_file_bytes: int) -> Iterator[FoundFile | PathReason]:
    """What the folder holds, sorted: files to send, and entries that are skipped, with the reason."""
    seen: set[str] = set()
    for found in _walk(root, "", _rules_above(root), max_file_bytes):
        if isinstance(found, FoundFile):
            if found.path in seen:
                yield {"path": found.path, "reason": "another file has the same name after Unicode normalisation"}
                continue
            seen.add(found.path)
        yield found


def _walk(
    folder: Path, prefix: str, rules: tuple[_Rules, ...], max_file_bytes: int
) -> Iterator[FoundFile | PathReason]:
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: (_nfc(entry.name), entry.name))
    except OSError as error:
        if not prefix:
            raise PackingError(f"{folder} can't be read: {error.strerror}.") from error
        yield {"path": prefix, "reason": f"can't be read: {error.strerror}"}
        return
    rules = (*rules, *_rules_in(folder, prefix))
    for entry in entries:
        path = prefix + _nfc(entry.name)
        is_folder = entry.is_dir(follow_symlinks=False)
        shown = _printable(path) + ("/" if is_folder else "")
        if reason := _reason_to_skip(entry, path, rules):
            yield {"path": shown, "reason": reason}
        elif is_folder:
            yield from _walk(Path(entry.path), f"{path}/", rules, max_file_bytes)
        else:
            content = _read(entry.path, max_file_bytes)
            if isinstance(content, str):
                yield {"path": shown, "reason": content}
            else:
                yield FoundFile(path=path, content=content[0], modified_s=content[1])


def _reason_to_skip(entry: os.DirEntry[str], path: str, rules: tuple[_Rules, ...]) -> str | None:
    """Why the entry does not go out, judged without opening it; None when it does."""
    if reason := NEVER_SENT.get(entry.name):
        return reason
    if entry.is_symlink() or _is_junction(entry):
        return "a link; links are not followed"
    is_folder = entry.is_dir(follow_symlinks=False)
    if not is_folder and not entry.is_file(follow_symlinks=False):
        return "not a regular file"
    if unfit := _unfit(path):
        return unfit
    if ignored_by := _ignored_by(path, is_folder, rules):
        return f"ignored by {ignored_by}"
    name = entry.name.lower()
    if not is_folder and name not in HARMLESS_NAMES and any(fnmatchcase(name, secret) for secret in SECRET_NAMES):
        return "its name says that it may hold secrets"
    return None


def _unfit(path: str) -> str | None:
    """Why no snapshot can hold this name; the server would refuse the whole upload for it."""
    if len(path) > MAX_PATH_CHARACTERS:
        return f"its path has more than {MAX_PATH_CHARACTERS:,} characters"
    if any(0xD800 <= ord(character) <= 0xDFFF for character in path):
        return "its name is not valid Unicode"
    if "\\" in path or path[1:2] == ":" or any(ord(character) < 32 or ord(character) == 127 for character in path):
        return "its name holds a character that not every system allows"
    return None


def _read(path: str, max_bytes: int) -> tuple[bytes, int] | str:
    """The file's bytes and the second of its last change, or the reason why not.

    Opened so that a link or a pipe that has taken the file's place since is not followed and does not block.
    """
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        with open(os.open(path, flags), "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                return "not a regular file"
            if state.st_size > max_bytes:
                return f"larger than {max_bytes:,} bytes"
            content = file.read(max_bytes + 1)
    except OSError as error:
        return f"can't be read: {error.strerror}"
    if len(content) > max_bytes:
        return f"larger than {max_bytes:,} bytes"
    return content, max(int(state.st_mtime), 0)


def _entry(found: FoundFile) -> tarfile.TarInfo:
    """The file's header, without anything of this machine or its user."""
    entry = tarfile.TarInfo(found.path)
    entry.size = len(found.content)
    entry.mtime = found.modified_s
    entry.mode = 0o644
    return entry


def _is_junction(entry: os.DirEntry[str]) -> bool:
    """Whether this is Windows' other kind of link to a folder."""
    reparse_point = getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
    attributes = getattr(entry.stat(follow_symlinks=False), "st_file_attributes", 0)
    return entry.is_dir(follow_symlinks=False) and bool(attributes & reparse_point)


def _nfc(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _printable(path: str) -> str:
    """The path for a message, also when it is no valid Unicode."""
    return path.encode("utf-8", "replace").decode()


# --- ignore files ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """One ignore file. `base` is the path of its folder below the snapshot's root, with a final slash; for a folder
    above the root `above` is the root's path below it instead, likewise.
    """

    shown: str
    file: IgnoreFile
    base: str = ""
    above: str = ""

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        return self.file.verdict(self.above + path[len(self.base) :], is_folder=is_folder)


def _ignored_by(path: str, is_folder: bool, rules: tuple[_Rules, ...]) -> str | None:
    """The ignore file that leaves the entry out: the innermost one that mentions it decides."""
    for rule in reversed(rules):
        verdict = rule.verdict(path, is_folder=is_folder)
        if verdict is not None:
            return rule.shown if verdict else None
    return None


def _rules_in(folder: Path, base: str, *, above: str = "") -> Iterator[_Rules]:
    for name in IGNORE_FILES:
        content = _read(str(folder / name), 1024 * 1024)
        if not isinstance(content, str):
            shown = f"{name} above the folder" if above else f"{_printable(base)}{name}"
            text = _nfc(content[0].decode("utf-8-sig", "surrogateescape"))
            yield _Rules(shown=shown, file=IgnoreFile.parse(text), base=base, above=above)


def _rules_above(root: Path) -> tuple[_Rules, ...]:
    """The rules of the folders around `root`, outermost first, when it lies in a git repository.

    None when they leave out `root` itself: who names an ignored folder wants it.
    """
    root = root.resolve()
    chain: list[_Rules] = []
    folder, above = root, ""
    while not (folder / ".git").exists():
        if folder == folder.parent:
            return ()
        above = f"{_nfc(folder.name)}/{above}"
        folder = folder.parent
        chain[:0] = _rules_in(folder, "", above=above)
    return () if _is_left_out(above.rstrip("/"), chain) else tuple(chain)


def _is_left_out(path: str, chain: list[_Rules]) -> bool:
    """Whether the root, at `path` below its repository's root, or a folder on the way to it is ignored.

    Each rule knows the root's path below its own folder (`above`), so a folder `depth` levels above the root is
    mentioned by the rules whose `above` is longer than that.
    """
    parts = path.count("/") + 1
    for depth in range(parts if path else 0):
        for rule in reversed(chain):
            below = rule.above.rstrip("/").split("/")
            if len(below) > depth:
                verdict = rule.file.verdict("/".join(below[: len(below) - depth]), is_folder=True)
                if verdict:
                    return True
                if verdict is not None:
                    break
    return False
