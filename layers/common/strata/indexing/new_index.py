"""A snapshot's way into a new index beside the live one: begin, fill in batches, flip, collect what is useless."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from strata.indexing.commit import Outcome, report
from strata.indexing.side_by_side import SideBySide
from strata.jobs.running import Phase, Progress, ReportProgress
from strata.model.corpus import BlobKey, FileEntry, Layer
from strata.model.jobs import Job, JobReport, Lease
from strata.ports.clock import unwatched
from strata.ports.sessions import CommitResult, FlipRequest, NewIndex, SessionStore

FILL_FILES = 200
"""Files of one transaction: a second or two, so that a worker that stops loses little and the lease is renewed."""
LEAST_FILL_FILES = 50
"""Where batches are written side by side, so many files on average make one at least; each process gets two or more,
which cost about the same, so that none waits for another at the end."""
_BYTES_OF_A_FILE = 1_000


class _Step(Enum):
    """What a counted index is made fast by."""

    TIDY = "tidy"
    TERM_BLOCKS = "term_blocks"
    CELLS = "cells"


_MADE_FAST = ((_Step.TIDY, _Step.TERM_BLOCKS), (_Step.CELLS,))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """A batch to write, each file with its key in the cache."""

    entries: Sequence[FileEntry]
    keys: Mapping[str, BlobKey]


_Work = _Files | Layer | _Step


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPart:
    """What is done for an index at once: a batch is written, a layer counted, or all of it made fast."""

    index_id: int
    job_id: str
    fence: int
    work: _Work

    def done(self, sessions: SessionStore) -> _Written:
        if isinstance(self.work, _Step):
            _make_fast(sessions, self.index_id, self.work)
        elif isinstance(self.work, Layer):
            sessions.count(self.index_id, job_id=self.job_id, fence=self.fence, layer=self.work)
        else:
            chunks = sessions.fill(
                self.index_id,
                job_id=self.job_id,
                fence=self.fence,
                entries=self.work.entries,
                keys=self.work.keys,
            )
            return _Written(files=len(self.work.entries), chunks=chunks)
        return _Written(files=0, chunks=0)


def index_worker(sessions: SessionStore) -> Callable[[IndexPart], _Written]:
    """In a process of its own: with a connection of its own."""
    own = sessions.in_new_process()
    return lambda part: part.done(own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What an index is built with."""

    embedding_model: str
    dimension: int
    pipeline_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A batch that is in the index; no chunks where it was there already."""

    files: int
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One job's new index; every step is safe to repeat, by this holder of the lock or by the next one.

    `progress` is told `filling` after each batch and `committing` before the flip, from where the job can't be
    cancelled any more. Steps raise `StaleFence`, `TemporaryError` and what `progress` raises; readers then see what
    they saw before, or the new index where the flip was done.
    """

    sessions: SessionStore
    job: Job
    lease: Lease
    outcome: Outcome
    built: Built
    progress: ReportProgress
    side_by_side: SideBySide[Any, Any] | None = None
    """Workers that take parts as `index_worker` does; without several, this process does."""
    is_first: bool = False
    """Nobody reads the session's files yet: its index goes live once it is counted, and is made fast then."""

    def run(self) -> JobReport:
        """Fill and flip."""
        return self.flip(self.fill())

    def fill(self) -> int | None:
        """The number of the filled index; None when the job has been applied already."""
        self._filled(0, 0)
        if self._applied() is not None:
            return None
        entries, keys = self._entries(), self.outcome.keys
        index_id = self.sessions.begin_index(
            NewIndex(
                session_id=self.job.session_id,
                job_id=self.job.job_id,
                seq=self._seq,
                fence=self.lease.fence,
                embedding_model=self.built.embedding_model,
                dimension=self.built.dimension,
                pipeline_version=self.built.pipeline_version,
                keys=[keys[entry.path] for entry in entries],
            )
        )
        self._fill(index_id, batches(entries, 1 if self.side_by_side is None else self.side_by_side.workers))
        return index_id

    def _fill(self, index_id: int, batches: Sequence[Sequence[FileEntry]]) -> None:
        """Write every batch, then count every layer, then make what searches are fast by, unless it is the first.

        `filled` is called between them only: who has little time left still gets one of them done.
        """
        keys = self.outcome.keys
        files = [_Files(entries=batch, keys={entry.path: keys[entry.path] for entry in batch}) for batch in batches]
        stages: Sequence[Sequence[_Work]] = (files, tuple(Layer), *(() if self.is_first else _MADE_FAST))
        done, written = 0, 0
        alone = len(batches) < 2
        for part in (part for stage in stages for part in self._done(index_id, stage, alone=alone)):
            done += part.files
            written += part.files if part.chunks else 0
            self._filled(done, written)

    def _done(self, index_id: int, stage: Sequence[_Work], *, alone: bool) -> Iterator[_Written]:
        """What comes of work that may be done side by side; `alone`: for few files no process is started."""
        parts = (IndexPart(index_id=index_id, job_id=self.job.job_id, fence=self.lease.fence, work=w) for w in stage)
        if alone or self.side_by_side is None or self.side_by_side.workers < 2 or len(stage) < 2:
            return (part.done(self.sessions) for part in parts)
        return self.side_by_side.results(parts, unwatched)

    def flip(self, index_id: int | None) -> JobReport:
        """Make the filled index the live one, and remove those that are neither live nor the one before."""
        files = len(self._entries())
        result = self._applied()
        if result is None:
            if index_id is None:
                raise ValueError(f"job {self.job.job_id} has not filled an index")
            self._committing()
            result = self.sessions.flip(
                FlipRequest(
                    session_id=self.job.session_id,
                    job_id=self.job.job_id,
                    seq=self._seq,
                    fence=self.lease.fence,
                    index_id=index_id,
                    files=files,
                    left_rights=self.outcome.left_rights,
                    counters=self.outcome.counters(indexed_files=files),
                )
            )
            if self.is_first:
                alone = files < 2 * LEAST_FILL_FILES
                for _ in (part for stage in _MADE_FAST for part in self._done(index_id, stage, alone=alone)):
                    self._committing()
        self.sessions.collect_indexes(self.job.session_id, advanced=self._committing)
        return report(result, self.outcome)

    def _filled(self, files: int, written: int) -> None:
        self._told("filling", done_files=files, written_files=written)

    def _committing(self) -> None:
        self._told("committing", done_files=len(self.outcome.plan.upserts))

    def _told(self, phase: Phase, *, done_files: int, written_files: int = 0) -> None:
        self.progress(
            Progress(
                phase=phase,
                done_files=done_files,
                total_files=len(self.outcome.plan.upserts),
                written_files=written_files,
                counters=self.outcome.counters(indexed_files=0),
            )
        )

    def _applied(self) -> CommitResult | None:
        return self.sessions.applied(self.job.session_id, job_id=self.job.job_id, seq=self._seq)

    def _entries(self) -> Sequence[FileEntry]:
        failed = self.outcome.failed
        return [entry for entry in self.outcome.plan.upserts if entry.path not in failed]

    @property
    def _seq(self) -> int:
        if self.job.seq is None:
            raise ValueError(f"job {self.job.job_id} was never accepted")
        return self.job.seq


def _make_fast(sessions: SessionStore, index_id: int, step: _Step) -> None:
    steps = {
        _Step.TIDY: sessions.tidy,
        _Step.TERM_BLOCKS: sessions.build_term_blocks,
        _Step.CELLS: sessions.build_cells,
    }
    steps[step](index_id)


def batches(entries: Sequence[FileEntry], workers: int) -> list[Sequence[FileEntry]]:
    """In the entries' order; for one worker, `FILL_FILES` each."""
    enough = math.inf
    if workers > 1:
        count = max(min(2 * workers, len(entries) // LEAST_FILL_FILES), -(-len(entries) // FILL_FILES), 1)
        enough = sum(map(_cost, entries)) / count
    found: list[Sequence[FileEntry]] = []
    start, cost = 0, 0
    for place, entry in enumerate(entries, start=1):
        cost += _cost(entry)
        if cost >= enough or place - start >= FILL_FILES or place == len(entries):
            found.append(entries[start:place])
            start, cost = place, 0
    return found


def _cost(entry: FileEntry) -> int:
    """What writing a file takes, as a number of bytes: an empty one takes something too."""
    return entry.size_bytes + _BYTES_OF_A_FILE
