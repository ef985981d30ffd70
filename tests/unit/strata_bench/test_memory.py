"""What a worker is said to hold is its own, whoever started it, and what its processes share counts once."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from multiprocessing.connection import Connection

import pytest

from strata_bench.memory import together_bytes, watched_memory

MB = 2**20
HOLDS_FOR_A_WHILE = """
print("little", flush=True)
input()
held = bytearray(b"x") * (200 * 2**20)
print("much", flush=True)
input()
del held
print("little", flush=True)
input()
"""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone tells it")


@pytest.fixture
def much() -> bytearray:
    return bytearray(b"x") * (300 * MB)


def test_a_process_does_not_answer_for_what_its_parent_held(much: bytearray) -> None:
    said = subprocess.run(
        [sys.executable, "-c", "from strata_bench.memory import peak_rss_bytes; print(peak_rss_bytes())"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert 0 < int(said) < 100 * MB < len(much)


def test_pages_that_processes_share_count_once(much: bytearray) -> None:
    alone = together_bytes(os.getpid())
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_stay, args=(theirs,))
    process.start()
    try:
        ours.recv()
        assert len(much) < together_bytes(os.getpid()) < alone + len(much) / 2
    finally:
        ours.send(None)
        process.join()


def test_the_most_that_was_held_is_remembered() -> None:
    # A process of its own: what other tests have left in this one may go at any moment.
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_FOR_A_WHILE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "little\n"
        before = together_bytes(process.pid)
        with watched_memory(process.pid) as peak:
            for said in ("much", "little"):
                print(file=process.stdin, flush=True)
                assert process.stdout.readline() == f"{said}\n"
                time.sleep(0.6)
        assert 0 < together_bytes(process.pid) < before + 100 * MB < before + 150 * MB < peak.bytes
        print(file=process.stdin, flush=True)


def _stay(pipe: Connection) -> None:
    pipe.send(None)
    pipe.recv()
