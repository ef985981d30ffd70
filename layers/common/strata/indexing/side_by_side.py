"""Work on batches in processes side by side, in a way that Lambda allows.

There is no /dev/shm on Lambda, so nothing of `multiprocessing` that needs a semaphore works there: no pool, no queue. A
process and a pipe do. Each worker is forked, so it shares the loaded model with us, takes one batch after the other,
and ends with its pipe, however we end.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from strata.errors import WorkerLost

Batch = TypeVar("Batch")
Result = TypeVar("Result")

_LOOKS_EVERY_S = 1.0
_END_PATIENCE_S = 5.0
_GC_THRESHOLD = 200_000


def usable_cores() -> int:
    """The cores that this process may use; 1 where it can't be forked safely."""
    if not sys.platform.startswith("linux"):
        return 1
    return len(os.sched_getaffinity(0))


class SideBySide(Generic[Batch, Result]):
    """Workers that are started when there are batches for them, and live until `end` or the block's end.

    `start_work` runs in each worker, once, and gives the function that turns a batch into a result. What that raises is
    raised here, in place of the result. Batches and results go through pipes, so they must be picklable.
    """

    def __init__(self, start_work: Callable[[], Callable[[Batch], Result]], *, workers: int) -> None:
        self.workers = workers
        self._start_work = start_work
        self._pipes: dict[Connection, Any] = {}

    def __enter__(self) -> SideBySide[Batch, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the workers, and with them all that they remember; later batches get new ones."""
        for pipe, process in self._pipes.items():
            pipe.close()
            process.terminate()
        for process in self._pipes.values():
            process.join(_END_PATIENCE_S)
            if process.is_alive():
                process.kill()
                process.join()
        self._pipes.clear()

    def results(self, batches: Iterable[Batch], waiting: Callable[[], None]) -> Iterator[Result]:
        """What becomes of the batches, in the order in which they are done; `waiting` is called every second at least.

        One batch more is drawn than there are workers to take them, so that none waits for its next one. Raises what a
        worker raised, `WorkerLost`, and what `waiting` raises. Left in the middle, it ends the workers: what they still
        send belongs to nobody.
        """
        self._start()
        coming = iter(batches)
        busy = [pipe for pipe in self._pipes if _sent(pipe, coming)]
        ahead = list(islice(coming, 1))
        try:
            while busy:
                for ready in wait(busy, timeout=_LOOKS_EVERY_S):
                    pipe = ready
                    assert isinstance(pipe, Connection)  # noqa: S101 - `wait` gives back what it was given
                    result = _received(pipe)
                    if not _sent(pipe, iter(ahead)):
                        busy.remove(pipe)
                    ahead = list(islice(coming, 1))
                    yield result
                waiting()
        finally:
            if busy:
                self.end()

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        while len(self._pipes) < self.workers:
            ours, theirs = context.Pipe()
            process = context.Process(target=self._serve, args=(theirs, [ours, *self._pipes]), daemon=True)
            process.start()
            theirs.close()
            self._pipes[ours] = process

    def _serve(self, pipe: Connection, others: list[Connection]) -> None:
        # What was inherited is never garbage, and looking through it would also copy its pages; with a parser's many
        # short-lived trees the default threshold costs a quarter of all work.
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD, 20, 20)
        for other in others:
            other.close()  # else their workers would not notice that we have ended
        work: Callable[[Batch], Result] | None = None
        with suppress(EOFError, BrokenPipeError, ConnectionResetError):
            while True:
                batch = pipe.recv()
                try:
                    work = work or self._start_work()
                    answer: tuple[Result | None, Exception | None] = (work(batch), None)
                except Exception as error:
                    answer = (None, error)
                pipe.send(answer)


def _sent(pipe: Connection, coming: Iterator[Any]) -> bool:
    """Whether there was one more batch to give."""
    for batch in coming:
        try:
            pipe.send(batch)
        except OSError as error:
            raise WorkerLost from error
        return True
    return False


def _received(pipe: Connection) -> Any:
    try:
        result, error = pipe.recv()
    except (EOFError, OSError) as lost:
        raise WorkerLost from lost
    if error is not None:
        raise error
    return result
