"""One cloud a data directory: which one runs there, and its end.

A file lock says whether one runs: it goes with its process, however that ends. `state.json` tells where it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from strata_local.errors import AlreadyRunning, LocalCloudError

DOWN_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCloud:
    """What `state.json` says about a cloud that is ready."""

    pid: int
    api_url: str
    aws_url: str
    environment: Mapping[str, str]
    """What the functions get: with it in its environment, a process here can use the same database and stores."""


def running_cloud(data_directory: Path) -> RunningCloud | None:
    """The cloud that runs in this data directory and is ready, if one is."""
    if _holder(data_directory) is None:
        return None
    try:
        return RunningCloud(**json.loads((data_directory / "state.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None  # still starting


def down(data_directory: Path, *, wipe: bool = False) -> bool:
    """End the cloud that runs in this data directory; whether one ran. `wipe` removes the data as well.

    Raises `LocalCloudError` when it does not end, or when the directory to be wiped is not one of ours.
    """
    pid = _holder(data_directory)
    if pid is not None:
        if pid == os.getpid():
            raise LocalCloudError("The local cloud runs in this very process: call its stop().")
        # The holder of the lock wrote this number and lives: it can't be another program's.
        os.kill(pid, signal.SIGTERM)
        limit = time.monotonic() + DOWN_PATIENCE_S
        while _holder(data_directory) is not None:
            if time.monotonic() > limit:
                raise LocalCloudError(f"Process {pid} does not end; its log is in {data_directory / 'logs'}.")
            time.sleep(0.1)
    if wipe and data_directory.exists():
        if not (data_directory / "lock").exists():
            raise LocalCloudError(f"{data_directory} holds no local cloud; nothing was removed.")
        shutil.rmtree(data_directory)
    return pid is not None


@contextlib.contextmanager
def only_one(data_directory: Path) -> Iterator[None]:
    """Hold the data directory's lock. Raises `AlreadyRunning`."""
    with (data_directory / "lock").open("a+", encoding="ascii") as lock:
        if not _locked(lock, fcntl.LOCK_EX, patience_s=0.3):
            cloud = running_cloud(data_directory)
            where = f"at {cloud.api_url} (process {cloud.pid})" if cloud is not None else "here, and is still starting"
            raise AlreadyRunning(f"A local cloud runs already {where}; `strata down` ends it.")
        (data_directory / "state.json").unlink(missing_ok=True)  # of one that was killed
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _holder(data_directory: Path) -> int | None:
    """The process that holds the data directory's lock."""
    path = data_directory / "lock"
    if not path.exists():
        return None
    with path.open(encoding="ascii") as lock:
        limit = time.monotonic() + 1.0
        while not _locked(lock, fcntl.LOCK_SH):
            lock.seek(0)
            if (written := lock.read().strip()).isdigit():
                return int(written)
            if time.monotonic() > limit:
                raise LocalCloudError(f"{path} is held by a process that did not write its number.")
            time.sleep(0.01)
    return None


def _locked(file: IO[str], kind: int, *, patience_s: float = 0.0) -> bool:
    """Whether the lock could be taken; it goes when the file is closed. A look at it lasts microseconds."""
    limit = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= limit:
                return False
            time.sleep(0.02)
        else:
            return True
