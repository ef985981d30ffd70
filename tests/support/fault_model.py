"""Where workers are killed, and the serial model that what they leave is held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strata.model.access import Identity
from strata.model.corpus import blob_sha_of

POINTS = (
    "before_accept",
    "after_accept",
    "after_lock",
    "after_claim",
    "after_start",
    "after_plan",
    "before_cache_write",
    "in_cache_write",
    "after_cache_write",
    "before_commit_mark",
    "after_commit_mark",
    "before_commit",
    "in_commit_before_writes",
    "in_commit_after_removes",
    "in_commit_after_writes",
    "in_commit_before_its_end",
    "after_commit",
    "before_finish",
    "after_finish",
    "before_release",
    "after_release",
)
"""Every place in a worker's way where it is killed."""
NEW_INDEX_POINTS = (
    "before_begin",
    "in_begin",
    "after_begin",
    "before_fill",
    "in_fill_before_its_end",
    "after_fill",
    "in_count_before_its_end",
    "after_count",
    "before_commit_mark",
    "after_commit_mark",
    "before_flip",
    "in_flip_before_its_end",
    "after_flip",
    "in_collect",
    "before_finish",
    "after_finish",
)
"""… on the way of a snapshot into a new index; those before and after it are the same."""
ROLL_BACK_POINTS = (
    "before_commit_mark",
    "after_commit_mark",
    "before_roll_back",
    "in_roll_back_before_its_end",
    "after_roll_back",
    "before_finish",
)

Files = Mapping[str, str]
Line = Mapping[str, Any]
"""A file or a change, as an upload's line has it. One whose content is empty is not indexed."""
Readers = tuple[str, ...]
"""Of a file, by its own list."""
Held = dict[str, tuple[str, Readers | None]]
"""What an index holds: a file's hash, and who may read it where that is not everybody who reads the session."""


@dataclass
class Model:
    """What a session holds after its jobs, one after the other: the live index's files, and those of the one before.

    Lists of readers belong to paths, whether these are indexed or not.
    """

    files: dict[str, str] = field(default_factory=dict)
    readers: dict[str, Readers] = field(default_factory=dict)
    before: Model | None = None

    def snapshot(self, lines: Sequence[Line], *, reindex: bool = False) -> None:
        if reindex:
            self.before = self.copy()
        self.files = {}
        self.changes(lines)

    def changes(self, lines: Sequence[Line]) -> None:
        apply(self.files, lines)
        for line in lines:
            if "acl" in line:
                self._give(line["path"], line["acl"])

    def roll_back(self) -> None:
        """Going back opens nothing: what has a list has it there too."""
        assert self.before is not None
        left, self.before = self.before, self.copy()
        self.files = left.files
        self.readers = {path: acl for path, acl in left.readers.items() if path in self.files} | self.readers

    def _give(self, path: str, acl: Sequence[str] | None) -> None:
        self.readers.pop(path, None)
        if acl is not None:
            self.readers[path] = tuple(sorted(acl))

    def copy(self) -> Model:
        """Without the index before."""
        return Model(dict(self.files), dict(self.readers))

    @property
    def held(self) -> Held:
        return {path: (blob_sha_of(content.encode()), self.readers.get(path)) for path, content in self.files.items()}

    @property
    def lines(self) -> list[Line]:
        """A snapshot that gives the same."""
        return [{"path": path, "content": text, "acl": self.readers.get(path)} for path, text in self.files.items()]

    def readable(self, identity: Identity) -> set[str]:
        return {path for path in self.files if identity.is_named_in(self.readers.get(path))}


def lines_of(files: Files) -> list[Line]:
    return [{"path": path, "content": content} for path, content in files.items()]


def apply(files: dict[str, str], changes: Sequence[Line]) -> None:
    """The serial model of a changes job, without the readers."""
    for change in changes:
        if change.get("op") == "delete" or not change["content"]:
            files.pop(change["path"], None)
        else:
            files[change["path"]] = change["content"]
