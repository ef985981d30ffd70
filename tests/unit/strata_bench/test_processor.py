"""Processor time of a tree of processes: all of them, the ended ones too, but for a tree that is left out."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from multiprocessing.connection import Connection

import pytest

from strata_bench.processor import tree_cpu_s

WORK_S = 0.4

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone tells it")


def test_running_and_ended_processes_of_a_tree_count_and_one_can_be_left_out() -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    before_s = tree_cpu_s(os.getpid())
    process = context.Process(target=_work_and_stay, args=(theirs,))
    process.start()
    try:
        ours.recv()
        assert process.pid is not None
        assert tree_cpu_s(os.getpid()) - before_s > 1.8 * WORK_S
        assert tree_cpu_s(process.pid) > 1.8 * WORK_S
        assert tree_cpu_s(os.getpid(), but=process.pid) - before_s < WORK_S
    finally:
        ours.send(None)
        process.join()
    assert tree_cpu_s(os.getpid()) - before_s > 1.8 * WORK_S


def _work_and_stay(pipe: Connection) -> None:
    inner = multiprocessing.get_context("fork").Process(target=_work)
    inner.start()
    inner.join()
    _work()
    pipe.send(None)
    pipe.recv()


def _work() -> None:
    start = time.process_time()
    while time.process_time() - start < WORK_S:
        pass
