from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata.errors import EmbedderRejected, HandedOver, WorkerLost
from strata.indexing.side_by_side import SideBySide

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are forked on Linux only")

LAYERS = Path(__file__).parents[3] / "layers" / "common"


def squares() -> Callable[[int], tuple[int, int]]:
    return lambda number: (number * number, os.getpid())


def unwatched() -> None:
    """Nobody waits."""


def test_every_batch_is_worked_on_once_by_several_processes() -> None:
    with SideBySide(squares, workers=2) as both:
        found = list(both.results(range(50), unwatched))
    assert sorted(square for square, _ in found) == [number * number for number in range(50)]
    assert os.getpid() not in {pid for _, pid in found}
    assert len({pid for _, pid in found}) == 2
    assert multiprocessing.active_children() == []


def test_one_more_is_drawn_than_there_are_workers() -> None:
    drawn = 0

    def batches() -> Iterator[int]:
        nonlocal drawn
        for number in range(10):
            drawn += 1
            yield number

    with SideBySide(squares, workers=2) as both:
        for done, _ in enumerate(both.results(batches(), unwatched), start=1):
            assert drawn <= done + 3
        assert drawn == 10


def test_a_batch_lies_ready_while_all_workers_are_busy() -> None:
    """Who draws it (reads and unpacks an upload, say) does so beside the workers, not before them."""
    drawn: list[float] = []

    def batches() -> Iterator[float]:
        for _ in range(6):
            drawn.append(time.monotonic())
            yield 0.2

    with SideBySide(sleeping, workers=2) as both:
        ended = list(both.results(batches(), unwatched))
    assert drawn[2] < min(ended)


def sleeping() -> Callable[[float], float]:
    def work(seconds: float) -> float:
        time.sleep(seconds)
        return time.monotonic()

    return work


def test_the_same_workers_take_what_comes_later() -> None:
    with SideBySide(squares, workers=2) as both:
        first = {pid for _, pid in both.results(range(20), unwatched)}
        second = {pid for _, pid in both.results(range(20), unwatched)}
    assert first | second == first


def test_after_an_end_others_take_what_comes_later() -> None:
    with SideBySide(squares, workers=2) as both:
        first = {pid for _, pid in both.results(range(20), unwatched)}
        both.end()
        assert multiprocessing.active_children() == []
        second = {pid for _, pid in both.results(range(20), unwatched)}
    assert not first & second


def test_what_is_left_in_the_middle_does_not_come_later() -> None:
    with SideBySide(sleeping, workers=2) as both:
        started = time.monotonic()
        found = both.results([0.1, 30, 30], unwatched)
        next(found)
        del found
        assert multiprocessing.active_children() == []
        assert len(list(both.results([0.0] * 4, unwatched))) == 4
    assert time.monotonic() - started < 10


def test_no_process_is_started_for_nobody() -> None:
    with SideBySide(squares, workers=2):
        assert multiprocessing.active_children() == []


def test_nothing_to_do_ends_at_once() -> None:
    with SideBySide(squares, workers=2) as both:
        assert list(both.results([], unwatched)) == []


def refusing() -> Callable[[int], int]:
    def work(number: int) -> int:
        if number == 3:
            raise EmbedderRejected("the third")
        return number

    return work


def test_what_a_worker_raises_is_raised_here() -> None:
    with SideBySide(refusing, workers=2) as both, pytest.raises(EmbedderRejected, match="the third"):
        list(both.results(range(10), unwatched))
    assert multiprocessing.active_children() == []


def broken_start() -> Callable[[int], int]:
    raise OSError("no connection")


def test_a_worker_that_can_not_begin_says_why() -> None:
    with SideBySide(broken_start, workers=2) as both, pytest.raises(OSError, match="no connection"):
        list(both.results(range(4), unwatched))


def dying() -> Callable[[int], int]:
    def work(number: int) -> int:
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    return work


def test_a_worker_that_dies_is_a_temporary_error() -> None:
    with SideBySide(dying, workers=2) as both, pytest.raises(WorkerLost):
        list(both.results(range(10), unwatched))
    assert multiprocessing.active_children() == []


def slow() -> Callable[[int], int]:
    def work(number: int) -> int:
        time.sleep(30)
        return number

    return work


def test_who_waits_may_stop_it_in_the_middle_of_a_batch() -> None:
    def hand_over() -> None:
        raise HandedOver

    started = time.monotonic()
    with SideBySide(slow, workers=2) as both, pytest.raises(HandedOver):
        list(both.results(range(10), hand_over))
    assert time.monotonic() - started < 10
    assert multiprocessing.active_children() == []


SCRIPT = textwrap.dedent(
    """
    import _multiprocessing, os, sys, time
    class Refused:
        SEM_VALUE_MAX = 1
        def __init__(self, *_, **__):
            raise OSError(38, "Function not implemented")
    _multiprocessing.SemLock = Refused  # as on Lambda, where there is no /dev/shm
    import multiprocessing
    try:
        multiprocessing.Queue()
    except OSError:
        print("semaphores are refused")
    from strata.indexing.side_by_side import SideBySide
    def work(number):
        if number < 0:
            os.write(1, f"{os.getpid()}\\n".encode())  # in one write: the lines of two workers never mix
            time.sleep(1)
        return number + 1
    with SideBySide(lambda: work, workers=2) as both:
        print(sorted(both.results(range(int(sys.argv[1]), 5), lambda: None)))
    """
)


def script(first: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(first)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(LAYERS)},
    )


def test_it_works_where_semaphores_are_refused() -> None:
    output, _ = script(0).communicate(timeout=60)
    assert output == "semaphores are refused\n[1, 2, 3, 4, 5]\n"


def test_workers_end_by_themselves_when_we_are_killed() -> None:
    process = script(-2)
    assert process.stdout is not None
    process.stdout.readline()
    workers = [int(process.stdout.readline()) for _ in range(2)]
    process.kill()
    process.wait()
    limit = time.monotonic() + 10
    while any(_runs(worker) for worker in workers):
        assert time.monotonic() < limit
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
