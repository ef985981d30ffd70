"""How an indexing job shows: a bar on a terminal, a few lines elsewhere; always on stderr."""

from __future__ import annotations

from types import TracebackType

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from strata_client.cli.screen import Screen, bytes_text, one_line, plural
from strata_client.events import JobEvent
from strata_client.indexing import IndexedFolder
from strata_client.packing import Snapshot
from strata_client.wire import JobView, ModelUsage, ParserNote, PathReason

SHOWN_REASONS = 8
EXAMPLES = 3

PHASES = {
    "queued": "Waiting its turn",
    "reading": "Reading the upload",
    "planning": "Comparing with the index",
    "preparing": "Embedding",
    "filling": "Filling",
    "committing": "Committing",
}


class JobBar:
    """An `IndexWatcher` that a person can watch. A context manager: the bar is gone when the block ends."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            console=screen.err,
            transient=True,
            disable=not screen.err.is_terminal,
        )
        self._task: TaskID = self._progress.add_task("Packing", total=None, amount="")
        self._phase = ""

    def __enter__(self) -> JobBar:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def packing(self, files: int) -> None:
        self._progress.update(self._task, amount=plural(files, "file"))

    def packed(self, snapshot: Snapshot) -> None:
        self._screen.note(f"Packed {plural(snapshot.files, 'file')}, {bytes_text(snapshot.archive_bytes)} to upload.")
        self._enter("Uploading", total=snapshot.archive_bytes)

    def uploading(self, sent_bytes: int, total_bytes: int) -> None:
        self._progress.update(self._task, completed=sent_bytes, amount=f"{bytes_text(sent_bytes)}")
        if sent_bytes == total_bytes and self._phase == "Uploading":
            self._enter(PHASES["queued"], total=None)

    def happened(self, event: JobEvent) -> None:
        if event.ended:
            return
        phase = PHASES.get(str(event.data.get("phase")), "Working")
        done, total = int(event.data.get("done_files") or 0), int(event.data.get("total_files") or 0)
        if phase != self._phase:
            self._enter(phase, total=total or None)
        self._progress.update(
            self._task, total=total or None, completed=done, amount=f"{done}/{total} files" if total else ""
        )

    def _enter(self, phase: str, *, total: int | None) -> None:
        self._phase = phase
        if self._progress.disable:
            self._screen.note(f"{phase} …")
        self._progress.reset(self._task, description=phase, total=total, completed=0, amount="")


def show_outcome(screen: Screen, indexed: IndexedFolder) -> None:
    """The job's counters, and what was left out on either side, with the reasons."""
    job, counters = indexed.job, indexed.job["counters"]
    generation = "" if job["generation"] is None else f", generation {job['generation']}"
    screen.note(f"{job['job_id']}: {job['status']} in {indexed.seconds:.1f} s{generation}.")
    screen.note(
        f"{counters['indexed_files']:,} indexed ({counters['cache_miss_files']:,} embedded, "
        f"{counters['cache_hit_files']:,} known), {counters['deleted_files']:,} removed, "
        f"{counters['skipped_files']:,} skipped, {counters['failed_files']:,} failed; "
        f"{job['chunks']:,} chunks in the index."
    )
    if usage := job.get("preambles"):
        screen.note(f"Preambles: {usage_text(usage)}.")
    _show_reasons(screen, "Left here", indexed.skipped_here, len(indexed.skipped_here), warn=False)
    _show_reasons(screen, "Skipped", job["skipped"], counters["skipped_files"], warn=False)
    _show_reasons(screen, "Failed", job["failed"], counters["failed_files"], warn=True)
    _show_notes(screen, job)


def place_of(note: ParserNote) -> str:
    path = one_line(note["path"])
    return path if note["line"] is None else f"{path}:{note['line']}"


def _show_notes(screen: Screen, job: JobView) -> None:
    shown = job["notes"][:SHOWN_REASONS]
    for note in shown:
        screen.warn(f"  Note: {place_of(note)}: {note['reason']}")
    if (rest := job["note_count"] - len(shown)) > 0:
        screen.warn(f"  Note: {rest:,} more; `strata jobs {job['job_id']}` lists them.")


def usage_text(usage: ModelUsage) -> str:
    """
    >>> usage_text({"calls": 2, "input_tokens": 1500, "output_tokens": 60, "cost": 0.0012})
    '2 calls of the chat model, 1,500 tokens in, 60 out, cost 0.0012'
    """
    cost = "" if usage["cost"] is None else f", cost {usage['cost']:g}"
    calls = plural(usage["calls"], "call")
    return f"{calls} of the chat model, {usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out{cost}"


def _show_reasons(
    screen: Screen, title: str, entries: tuple[PathReason, ...] | list[PathReason], count: int, *, warn: bool
) -> None:
    """One line a reason, the commonest first, each with a few examples."""
    by_reason: dict[str, list[str]] = {}
    for entry in entries:
        by_reason.setdefault(entry["reason"], []).append(one_line(entry["path"]))
    say = screen.warn if warn else screen.note
    ranked = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    for reason, paths in ranked[:SHOWN_REASONS]:
        more = f" and {len(paths) - EXAMPLES:,} more" if len(paths) > EXAMPLES else ""
        say(f"  {title}: {', '.join(paths[:EXAMPLES])}{more}: {reason}")
    rest = count - sum(len(paths) for _, paths in ranked[:SHOWN_REASONS])
    if rest > 0:
        say(f"  {title}: {rest:,} more; --json lists them with their reasons.")
