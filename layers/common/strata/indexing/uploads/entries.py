"""One file of an upload, and where it may lie."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime

from strata.errors import AboutFile, InvalidPath, UnsafeEntry
from strata.model.corpus import checked_path
from strata.model.jobs import ChangeOp


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadEntry:
    """One file of an upload.

    `content` is None for a delete, for a file sent by hash alone, and where a reason says why it was not read:
    `skip_reason` (not to be indexed) or `fail_reason` (the file fails alone).
    """

    path: str
    size_bytes: int
    content: bytes | None = None
    content_hash: str | None = None
    acl: tuple[str, ...] | None = None
    names_rights: bool = False
    """Whether the upload says who may read the file: with `acl` None everybody who reads the session."""
    last_modified: datetime | None = None
    op: ChangeOp = ChangeOp.UPSERT
    skip_reason: str | None = None
    fail_reason: str | None = None


def safe_path(name: str, acl: tuple[str, ...] | None = None) -> tuple[str, str | None]:
    """The path as it is stored, and the reason to skip it if it can't be one. Raises `UnsafeEntry`.

    `acl` is what the upload says about the file's readers.
    """
    try:
        return checked_path(unicodedata.normalize("NFC", name)), None
    except InvalidPath as error:
        shown = shown_name(name)
        drive = len(name) > 1 and name[1] == ":"
        if name.startswith("/") or "\\" in name or drive or ".." in name.split("/"):
            raise UnsafeEntry(about=about_entry(name, "which is not inside the project", acl)) from error
        printable = "".join(character if character.isprintable() else "\ufffd" for character in shown)
        return printable, f"Its name can't be a path: {error.message}"


def shown_name(name: str) -> str:
    """A name from an upload, short and sound enough for a message."""
    return name[:200].encode("utf-8", "replace").decode("utf-8")


def about_entry(name: str, fault: str, acl: tuple[str, ...] | None = None) -> AboutFile:
    return AboutFile(path=_known_path(name), reason=f"The upload holds {shown_name(name)!r}, {fault}.", acl=acl)


def about_file(name: str, reason: str) -> AboutFile:
    return AboutFile(path=_known_path(name), reason=reason)


def _known_path(name: str) -> str:
    """The path under which the session knows a file of this name, if it knows one."""
    name = unicodedata.normalize("NFC", name)
    try:
        return checked_path(name)
    except InvalidPath:
        return name


def check_directory(name: str) -> None:
    """Raises `UnsafeEntry` for a folder outside the project; the root itself is fine."""
    if name.strip("/.") or ".." in name.split("/"):
        safe_path(name.rstrip("/") if name.rstrip("/") else name)
