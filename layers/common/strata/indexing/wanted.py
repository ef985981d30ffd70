"""The first pass over an upload: which files are wanted, and what is said about the others. Writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from strata.indexing.plan import IGNORE_FILES, MAX_IGNORE_FILE_BYTES, IgnoreRules, denied, unfit
from strata.indexing.uploads.entries import UploadEntry
from strata.model.corpus import FileEntry, blob_sha_of
from strata.model.jobs import ChangeOp

_HASH_DIFFERS = "Its content does not have the given content_hash."


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedFile:
    """A file to be indexed; `position` is its entry's place in the upload, None where only the hash was sent."""

    entry: FileEntry
    position: int | None


@dataclass(slots=True, kw_only=True)
class Wanted:
    """What an upload asks for; a path is in one of the first four, as its last entry has it."""

    files: dict[str, WantedFile] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    ignored_by: dict[str, str] = field(default_factory=dict)
    """For some of the skipped, the ignore file that their reason names."""
    failed: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    acls: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Who may read a file, whatever becomes of it, where a list was ever given: the upload's word counts first."""

    def without_rights(self, indexed: Collection[str]) -> set[str]:
        """Paths that nothing is known about: the upload does not say who may read them, and they are not indexed."""
        return {path for path in self.paths if path not in self.acls and path not in indexed}

    def keep_rights(self, acls: Mapping[str, tuple[str, ...] | None]) -> None:
        """Take over what the session knows about who may read these files, unless the upload says something else."""
        for path, acl in acls.items():
            if acl is None or path in self.acls:
                continue
            self.acls[path] = acl
            if file := self.files.get(path):
                self.files[path] = replace(file, entry=replace(file.entry, acl=acl))

    def acl_of(self, path: str) -> tuple[str, ...] | None:
        return self.acls.get(path)

    @property
    def paths(self) -> set[str]:
        return {*self.files, *self.skipped, *self.failed, *self.deleted}


def read_wanted(
    entries: Iterable[UploadEntry],
    *,
    max_file_bytes: int,
    obeys_ignore_files: bool,
) -> Wanted:
    """Hash and judge every entry.

    Ignore files are obeyed wherever they stand in the upload, so paths are judged by them at the end.
    """
    wanted = Wanted()
    rules = IgnoreRules()
    for position, entry in enumerate(entries):
        path = entry.path
        wanted.deleted.discard(path)
        for outcomes in (wanted.files, wanted.skipped, wanted.failed):
            outcomes.pop(path, None)
        if entry.names_rights:
            wanted.acls[path] = entry.acl
        if entry.op is ChangeOp.DELETE:
            wanted.deleted.add(path)
        elif entry.fail_reason:
            wanted.failed[path] = entry.fail_reason
        elif reason := denied(path) or entry.skip_reason:
            wanted.skipped[path] = reason
        elif entry.content is None:
            wanted.files[path] = WantedFile(entry=_file_entry(wanted, entry, entry.content_hash or ""), position=None)
        else:
            _judge(wanted, entry, entry.content, position, max_file_bytes)
            if obeys_ignore_files and path.rpartition("/")[2] in IGNORE_FILES:
                rules.add(path, entry.content[:MAX_IGNORE_FILE_BYTES])
    if obeys_ignore_files:
        for path in [*wanted.files, *wanted.failed]:
            if ignored_by := rules.ignoring(path):
                wanted.files.pop(path, None)
                wanted.failed.pop(path, None)
                wanted.skipped[path] = f"It is ignored by {ignored_by}."
                wanted.ignored_by[path] = ignored_by
    return wanted


def _judge(wanted: Wanted, entry: UploadEntry, content: bytes, position: int, max_file_bytes: int) -> None:
    blob_sha = blob_sha_of(content)
    if entry.content_hash not in (None, blob_sha):
        wanted.failed[entry.path] = _HASH_DIFFERS
    elif reason := unfit(entry.path, content, max_file_bytes=max_file_bytes):
        wanted.skipped[entry.path] = reason
    else:
        wanted.files[entry.path] = WantedFile(entry=_file_entry(wanted, entry, blob_sha), position=position)


def _file_entry(wanted: Wanted, entry: UploadEntry, blob_sha: str) -> FileEntry:
    return FileEntry(
        path=entry.path,
        blob_sha=blob_sha,
        acl=wanted.acl_of(entry.path),
        last_modified=entry.last_modified,
        size_bytes=entry.size_bytes,
    )


def with_known_sizes(wanted: Wanted, indexed: Mapping[str, FileEntry]) -> list[FileEntry]:
    """The wanted entries; a file sent by hash takes its size from the index if it is there unchanged."""
    entries = []
    for path, file in wanted.files.items():
        before = indexed.get(path)
        if file.position is None and before and before.blob_sha == file.entry.blob_sha:
            entries.append(replace(file.entry, size_bytes=before.size_bytes))
        else:
            entries.append(file.entry)
    return entries
