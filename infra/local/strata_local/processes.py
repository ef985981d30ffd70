"""Child processes that never outlive us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from strata_local import tether


@dataclass(frozen=True, slots=True)
class User:
    """A user of this machine, by number; -1 is whoever we are."""

    uid: int = -1
    gid: int = -1


class Child:
    """A running program. A thread of its own starts it and waits for it: Linux ties the child to that thread."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        output: IO[bytes],
        on_exit: Callable[[int], None] = lambda _: None,
        death_signal: signal.Signals = signal.SIGKILL,
        user: User | None = None,
    ) -> None:
        """Raises OSError when the program can't be started. `on_exit` gets the exit status, negative for a signal."""
        self._command = tethered(command, death_signal=death_signal, user=user or User())
        self._environment, self._folder, self._output, self._on_exit = environment, folder, output, on_exit
        self._process: subprocess.Popen[bytes] | None = None
        self._fault: OSError | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"child-{Path(command[0]).name}", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._fault is not None:
            raise self._fault

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def alive(self) -> bool:
        return self._running().poll() is None

    def kill(self) -> None:
        self._running().kill()

    def stop(self, *, first: signal.Signals = signal.SIGTERM, patience_s: float) -> None:
        """Ask it to end, then make it; returns when it has ended and `on_exit` has run."""
        process = self._running()
        if process.poll() is None:
            process.send_signal(first)
        self._thread.join(patience_s)
        if self._thread.is_alive():
            process.kill()
            self._thread.join()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("The program has not started.")
        return self._process

    def _run(self) -> None:
        try:
            self._process = subprocess.Popen(
                self._command,
                env=dict(self._environment),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is ours alone; we stop the children in order
            )
        except OSError as error:
            self._fault = error
            return
        finally:
            self._started.set()
        self._on_exit(self._process.wait())


def tethered(command: Sequence[str], *, death_signal: signal.Signals, user: User) -> list[str]:
    """The command that starts `command` as `user`, tied to the life of the calling thread."""
    launcher = [sys.executable, "-I", "-S", str(Path(tether.__file__).resolve())]
    return [*launcher, str(os.getpid()), str(int(death_signal)), str(user.uid), str(user.gid), *command]
