"""A snapshot's way into a new index beside the live one: begin, fill in batches, flip, collect what is useless."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from strata.indexing.commit import Outcome, report
from strata.indexing.side_by_side import SideBySide
from strata.jobs.running import Phase, Progress, ReportProgress
from strata.model.corpus import FileEntry, Layer
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


_Part = Sequence[FileEntry] | Layer | _Step


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
    workers: int = 1
    """Processes that write batches side by side."""
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
        self._fill(index_id, batches(entries, self.workers))
        return index_id

    def _fill(self, index_id: int, batches: Sequence[Sequence[FileEntry]]) -> None:
        """Write every batch, then count every layer, then make what searches are fast by, unless it is the first.

        `filled` is called between them only: who has little time left still gets one of them done.
        """
        steps: Sequence[Sequence[_Part]] = (batches, tuple(Layer), () if self.is_first else tuple(_Step))
        if self.workers < 2 or len(batches) < 2:
            self._tell(self._done(self.sessions, index_id, part) for parts in steps for part in parts)
            return
        with SideBySide(lambda: self._worker(index_id), workers=self.workers) as side_by_side:
            self._tell(done for parts in steps for done in side_by_side.results(parts, unwatched))

    def _tell(self, parts: Iterable[_Written]) -> None:
        done, written = 0, 0
        for part in parts:
            done += part.files
            written += part.files if part.chunks else 0
            self._filled(done, written)

    def _worker(self, index_id: int) -> Callable[[_Part], _Written]:
        """In a process of its own: with a connection of its own."""
        sessions = self.sessions.in_new_process()
        return lambda part: self._done(sessions, index_id, part)

    def _done(self, sessions: SessionStore, index_id: int, part: _Part) -> _Written:
        if isinstance(part, _Step):
            _make_fast(sessions, index_id, part)
            return _Written(files=0, chunks=0)
        if isinstance(part, Layer):
            sessions.count(index_id, job_id=self.job.job_id, fence=self.lease.fence, layer=part)
            return _Written(files=0, chunks=0)
        return self._write(sessions, index_id, part)

    def _write(self, sessions: SessionStore, index_id: int, batch: Sequence[FileEntry]) -> _Written:
        chunks = sessions.fill(
            index_id,
            job_id=self.job.job_id,
            fence=self.lease.fence,
            entries=batch,
            keys={entry.path: self.outcome.keys[entry.path] for entry in batch},
        )
        return _Written(files=len(batch), chunks=chunks)

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
                for step in _Step:
                    self._committing()
                    _make_fast(self.sessions, index_id, step)
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
    steps = {_Step.TERM_BLOCKS: sessions.build_term_blocks, _Step.TIDY: sessions.tidy}
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
