"""Sessions and their indexes, and what changes them (Postgres)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from strata.model.access import Identity, Principal, Session
from strata.model.corpus import BlobKey, FileEntry, Layer
from strata.model.jobs import Counters
from strata.ports.clock import Advanced, unwatched


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One job's effect on a session's index, as the plan found it.

    `upserts` are files to (re)write, each prepared in the cache under `keys[path]`; `rights` are files whose `acl` or
    `last_modified` alone changes; `deletes` are paths to remove. `left_rights` are the lists of files that are not in
    the index afterwards, for `SessionStore.left_rights`; None forgets one.
    """

    session_id: str
    job_id: str
    seq: int
    fence: int
    upserts: tuple[FileEntry, ...]
    keys: Mapping[str, BlobKey]
    rights: tuple[FileEntry, ...]
    deletes: tuple[str, ...]
    counters: Counters
    left_rights: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """`chunks` counts the whole index as the commit left it.

    `replayed`: this seq had been committed before (a lost reply); `counters` are then those of that commit.
    """

    generation: int
    chunks: int
    counters: Counters
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewIndex:
    """An index to be built beside the live one by one job; `keys` name every prepared file that it is going to hold."""

    session_id: str
    job_id: str
    seq: int
    fence: int
    embedding_model: str
    dimension: int
    pipeline_version: str
    keys: Collection[BlobKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipRequest:
    """A filled index is to go live; it must hold `files` files. `left_rights` as in `CommitRequest`."""

    session_id: str
    job_id: str
    seq: int
    fence: int
    index_id: int
    files: int
    counters: Counters
    left_rights: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBackRequest:
    """The index before the live one is to go live again."""

    session_id: str
    job_id: str
    seq: int
    fence: int


class SessionStore(Protocol):
    """Sessions and their indexed files (Postgres)."""

    def create(
        self,
        *,
        session_id: str,
        identity: Identity,
        project_id: str,
        embedding_model: str,
        dimension: int,
        pipeline_version: str,
        readers: Sequence[Principal] = (),
    ) -> tuple[Session, bool]:
        """The session and whether it is new. An existing one is returned if the caller may write it.

        Raises `SessionNameTaken` otherwise. Safe to call at the same time from many places.
        """
        ...

    def get(self, session_id: str) -> Session | None:
        """The session, whoever asks: the caller checks rights with `Session.readable_by`."""
        ...

    def list_readable(self, identity: Identity) -> list[Session]: ...

    def indexed_files(self, session_id: str, paths: Collection[str] | None = None) -> dict[str, FileEntry]:
        """What the active index holds, by path (also files without a chunk); with `paths` only those."""
        ...

    def left_rights(self, session_id: str, paths: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The lists with which those of these files that had one left the index; forgotten when a file is written."""
        ...

    def length_drift(self, session_id: str) -> float:
        """How far average lengths have moved from the pinned ones, as a share of them, in the layer where it is most.

        Layers with few chunks don't count: 0.0 for a small session.
        """
        ...

    def commit(self, request: CommitRequest) -> CommitResult:
        """Apply one job in one transaction, under fence and seq.

        Raises `StaleFence` when a newer holder has committed; writes nothing then. A seq at or below the applied one
        of the same job is a replay and does nothing.
        """
        ...

    # A new index beside the live one: begun once everything is prepared, filled in batches, then live at once. Nobody
    # reads it before, and each step may be repeated: by the same holder, or by the next one on the same job.

    def applied(self, session_id: str, *, job_id: str, seq: int) -> CommitResult | None:
        """The result of this job, as a replay, if it has been applied (a lost reply); None otherwise."""
        ...

    def begin_index(self, new: NewIndex) -> int:
        """The number of the job's new index: an empty one, or the one that it has begun before with the same model.

        Average lengths are pinned by `new.keys`. Raises `SessionNotFound` and `StaleFence`.
        """
        ...

    def fill(
        self, index_id: int, *, job_id: str, fence: int, entries: Sequence[FileEntry], keys: Mapping[str, BlobKey]
    ) -> int:
        """Write a batch of prepared files in one transaction; one that is there already stays. The chunks written.

        Batches of one holder may be written at the same time, from several processes. Raises `StaleFence` when the
        index is not this holder's to fill, `TemporaryError` for a file not prepared.
        """
        ...

    def count(self, index_id: int, *, job_id: str, fence: int, layer: Layer) -> None:
        """Count what the filled index holds of one layer, in place of what was counted before.

        Layers may be counted at the same time, from several processes. Raises `StaleFence` as `fill` does.
        """
        ...

    def tidy(self, index_id: int) -> None:
        """Have a filled index ready for its first reader: nothing waits to be merged, the planner knows its rows.

        What is found does not depend on it. It may run beside `count`.
        """
        ...

    def build_term_blocks(self, index_id: int) -> None:
        """Have a counted index's frequent words ready for fast searches; what is found does not depend on it.

        It may run beside `tidy`.
        """
        ...

    def build_cells(self, index_id: int) -> None:
        """Divide a large index's vectors into cells, so that searches look into the nearest ones only."""
        ...

    def in_new_process(self) -> SessionStore:
        """The same store for a process that was just forked: a connection can't be shared."""
        ...

    def flip(self, request: FlipRequest) -> CommitResult:
        """Make the filled index the live one, under fence and seq as `commit`; the one before is kept if it has files.

        Raises `TemporaryError` for one that is not filled, or not counted since it was.

        The session's model, dimension and pipeline are those of the new index from then on.
        """
        ...

    def roll_back(self, request: RollBackRequest) -> CommitResult:
        """Make the index before the live one again, under fence and seq as `commit`; a second time undoes that.

        Rights are no part of what is undone: a file with a list in the live index, or on record in `left_rights`, has
        that list afterwards; one that leaves the index is on record.

        Raises `NoEarlierIndex`.
        """
        ...

    def collect_indexes(self, session_id: str, *, but_of_job: str | None = None, advanced: Advanced = unwatched) -> int:
        """Remove indexes that are neither live nor the one before, nor being filled by that job; how many.

        `advanced` is called every few seconds; what it raises comes through, and the next call goes on.
        """
        ...

    def claim(self, session_id: str, fence: int) -> None:
        """From now on nothing is committed under an older fence. Raises `SessionNotFound` and `StaleFence`."""
        ...

    def set_readers(self, session_id: str, readers: Sequence[Principal]) -> Session:
        """Raises `SessionNotFound`. It takes effect with the next statement of any reader."""
        ...

    def delete(self, session_id: str, fence: int) -> bool:
        """Remove the session if its fence is older than this one: nobody finds it any more, and its name stays taken
        until `end_purge`. Whether the session is gone; False for a newer one of the same name. Safe to repeat.

        A later session of that name goes on with the numbers of this one: fence, seq and generation.
        """
        ...

    def purge(self, session_id: str) -> bool:
        """Remove a part of what a deleted session has left: rows, and the cache of a repository that no session is
        left of. True as long as there may be more.
        """
        ...

    def end_purge(self, session_id: str) -> None:
        """The name is free."""
        ...
