"""Where workers are killed, and the serial model that what they leave is held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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


@dataclass
class Model:
    """What a session holds after its jobs, one after the other: the live index's files, and those of the one before."""

    files: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] | None = None

    def snapshot(self, files: Files, *, reindex: bool = False) -> None:
        if reindex:
            self.before = dict(self.files)
        self.files = dict(files)

    def changes(self, changes: Sequence[Mapping[str, Any]]) -> None:
        apply(self.files, changes)

    def roll_back(self) -> None:
        assert self.before is not None
        self.files, self.before = self.before, self.files

    @property
    def hashes(self) -> dict[str, str]:
        return {path: blob_sha_of(content.encode()) for path, content in self.files.items()}


def apply(files: dict[str, str], changes: Sequence[Mapping[str, Any]]) -> None:
    """The serial model of a changes job."""
    for change in changes:
        if change["op"] == "delete":
            files.pop(change["path"], None)
        else:
            files[change["path"]] = change["content"]
