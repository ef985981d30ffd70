"""Waiting for a signal, in a program of its own: the main thread is the one that signals reach."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import _thread, signal, sys, threading
from strata_client.cli.cloud import serve

def stop(number, frame):
    raise SystemExit(0)

signal.signal(signal.SIGTERM, stop)
# The handler is due, and nothing wakes the thread that has to run it: a signal that came just before the wait.
threading.Timer(0.2, _thread.interrupt_main, [signal.SIGTERM]).start()
serve()
"""


def test_a_signal_that_comes_just_before_the_wait_is_noticed() -> None:
    assert subprocess.run([sys.executable, "-c", PROGRAM], check=False, timeout=30).returncode == 0
