"""Function processes: one request a process at a time, more processes on demand up to a cap.

A process that crashes, runs out of time or can't start is reported in Lambda's words, and the next call gets a new one.
Each function writes what it prints to a log of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from strata_local.function_process import FunctionProcess
from strata_local.invocations import Buffered, Ended, Failed, Invocation, Part
from strata_local.stack import Function

INIT_LIMIT_S = 120.0
"""For imports and the start of the application; Lambda allows 10 s and tries again, a laptop may be slower."""
DEATHS = frozenset({"Runtime.ExitError", "Sandbox.Timedout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many processes there may be, and when an event that failed comes again.

    Lambda waits one minute before the first retry and two before the second. Here an error is retried soon; a process
    that died or was stopped may have held a lock, so its event waits until a lease (60 s) has run out.
    """

    max_processes: int = 8
    max_workers: int = 2
    """Of a function without a route: each may keep every core busy for minutes."""
    retry_delays_s: tuple[float, ...] = (1.0, 2.0)
    retry_delay_after_death_s: float = 65.0

    def retry_delay_s(self, failure: Failed, attempt: int) -> float:
        """`attempt` counts from 0."""
        if failure.error_type in DEATHS:
            return self.retry_delay_after_death_s
        return self.retry_delays_s[min(attempt, len(self.retry_delays_s) - 1)]


class FunctionPool:
    """All processes of one function."""

    def __init__(
        self, function: Function, *, environment: Mapping[str, str], log_folder: Path, max_processes: int
    ) -> None:
        self.function = function
        self.log_path = log_folder / f"{function.name}.log"
        self._environment = environment
        self._max_processes = max_processes
        self._changed = threading.Condition()
        self._idle: list[FunctionProcess] = []
        self._all: set[FunctionProcess] = set()
        self._starting = 0
        self._closed = False
        self._log_lock = threading.Lock()
        self._log: IO[bytes] = self.log_path.open("a+b", buffering=0)

    @property
    def pids(self) -> list[int]:
        with self._changed:
            return sorted(process.pid for process in self._all)

    def invoke(self, event: bytes, *, wait_s: float | None = None) -> Iterator[Part]:
        """Run one event and yield the reply's parts; the last is `Buffered`, `Ended` or `Failed`.

        Waits for a free process, at most `wait_s`. Read it to its end: a process whose reply is given up is stopped.
        """
        while True:
            process = self._acquire(wait_s)
            if process is None:
                message = f"All {self._max_processes} processes of {self.function.name} are busy."
                yield Failed(error_type="TooManyRequestsException", message=message)
                return
            invocation = Invocation(event, timeout_s=self.function.timeout_s)
            self._note(f"START RequestId: {invocation.request_id}")
            started = time.monotonic()
            try:
                process.submit(invocation)
                first = self._next_part(process, invocation, started)
                if isinstance(first, Failed) and invocation.deadline is None and process.served:
                    continue  # it ended while it was idle; nobody has seen the event
                yield first
                last = first
                while not isinstance(last, Buffered | Ended | Failed):
                    last = self._next_part(process, invocation, started)
                    yield last
                failure = f" Error: {last.error_type}: {last.message}" if isinstance(last, Failed) else ""
                milliseconds = (time.monotonic() - started) * 1000
                self._note(f"REPORT RequestId: {invocation.request_id} Duration: {milliseconds:.1f} ms{failure}")
                return
            finally:
                process.served += 1
                self._release(process, reusable=invocation.ended.is_set())

    def prestart(self) -> None:
        """Start one process, if there is none, without waiting until it is ready."""
        with self._changed:
            if self._all or self._starting or self._closed:
                return
            self._starting += 1
        process = self._start()
        if process is not None:
            with self._changed:
                self._idle.append(process)
                self._changed.notify()

    def stop(self) -> None:
        """End every process; calls under way end as failed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while self._starting:
                self._changed.wait()
            processes = list(self._all)
        stoppers = [threading.Thread(target=process.stop) for process in processes]
        for stopper in stoppers:
            stopper.start()
        for stopper in stoppers:
            stopper.join()
        with self._changed:
            self._all.clear()
            self._idle.clear()
        with self._log_lock:
            self._log.close()

    def _next_part(self, process: FunctionProcess, invocation: Invocation, started: float) -> Part:
        while True:
            # The time limit counts from the moment when the process takes the event: until then, look often.
            handed_over = invocation.deadline
            limit = handed_over if handed_over is not None else started + INIT_LIMIT_S
            left_s = limit - time.monotonic()
            part = invocation.next_part(left_s if handed_over is not None else min(left_s, 0.05))
            if part is not None:
                return part
            if time.monotonic() >= limit and invocation.deadline == handed_over:
                seconds = self.function.timeout_s if handed_over is not None else INIT_LIMIT_S
                message = f"RequestId: {invocation.request_id} Error: Task timed out after {seconds:.2f} seconds"
                invocation.emit(Failed(error_type="Sandbox.Timedout", message=message))
                process.kill()

    def _acquire(self, wait_s: float | None) -> FunctionProcess | None:
        deadline = None if wait_s is None else time.monotonic() + wait_s
        with self._changed:
            while not self._closed:
                while self._idle:
                    process = self._idle.pop()
                    if process.alive:
                        return process
                    self._all.discard(process)
                if len(self._all) + self._starting < self._max_processes:
                    self._starting += 1
                    break
                left_s = None if deadline is None else deadline - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return None
                self._changed.wait(left_s)
            if self._closed:
                return None
        return self._start()

    def _start(self) -> FunctionProcess | None:
        """A new process, started outside the lock; None when the pool has been stopped meanwhile."""
        new: FunctionProcess | None = None
        try:
            new = FunctionProcess(self.function, self._environment, self._log)
        finally:
            with self._changed:
                self._starting -= 1
                if new is not None:
                    self._all.add(new)
                closed = self._closed
                self._changed.notify_all()
        if closed:
            new.stop()
            return None
        return new

    def _release(self, process: FunctionProcess, *, reusable: bool) -> None:
        if not (reusable and process.alive):
            process.stop()
        with self._changed:
            if process.alive and not self._closed:
                self._idle.append(process)
            else:
                self._all.discard(process)
            self._changed.notify()

    def _note(self, line: str) -> None:
        text = f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {line}\n".encode()
        with self._log_lock:
            if not self._log.closed:
                size = os.fstat(self._log.fileno()).st_size
                broken_line = size > 0 and os.pread(self._log.fileno(), 1, size - 1) != b"\n"
                self._log.write(b"\n" + text if broken_line else text)


class Functions:
    """Every function of the stack, for calls that wait and for events that do not."""

    def __init__(
        self,
        functions: Mapping[str, Function],
        *,
        environment: Mapping[str, str],
        log_folder: Path,
        limits: Limits,
        routed: Collection[str],
    ) -> None:
        """`environment` is added to what the template gives to each function, and wins; `routed` serve the API."""
        log_folder.mkdir(parents=True, exist_ok=True)
        self._pools = {
            name: FunctionPool(
                function,
                environment=environment,
                log_folder=log_folder,
                max_processes=_max_processes(function, limits, routed=name in routed),
            )
            for name, function in functions.items()
        }
        self._dead_letters = log_folder / "dead-letters.jsonl"
        self._limits = limits
        self._stopping = threading.Event()
        self._dead_letter_lock = threading.Lock()
        self._workers = ThreadPoolExecutor(max_workers=32, thread_name_prefix="asynchronous")

    def __getitem__(self, name: str) -> FunctionPool:
        return self._pools[name]

    @property
    def pids(self) -> dict[str, list[int]]:
        return {name: pool.pids for name, pool in self._pools.items()}

    def prestart(self, names: Collection[str]) -> None:
        """Start a process of each of these functions, so that the first call finds its imports done."""
        for name in names:
            self._pools[name].prestart()

    def invoke(self, name: str, payload: bytes) -> Buffered | Failed:
        """Run one event and wait for its end."""
        last: Part = Failed(error_type="Runtime.ExitError", message="There was no reply.")
        for part in self._pools[name].invoke(payload):
            last = part
        if isinstance(last, Buffered | Failed):
            return last
        return Failed(error_type="InvalidReply", message=f"{name} answered with a stream.")

    def invoke_asynchronously(self, name: str, event: object) -> None:
        """Queue an event: it is tried again after an error, as often as the template says, then it is a dead letter."""
        if not self._stopping.is_set():
            self._workers.submit(self._deliver, self._pools[name], event)

    def stop(self) -> None:
        self._stopping.set()
        stoppers = [threading.Thread(target=pool.stop) for pool in self._pools.values()]
        for stopper in stoppers:
            stopper.start()
        for stopper in stoppers:
            stopper.join()
        self._workers.shutdown(cancel_futures=True)

    def _deliver(self, pool: FunctionPool, event: object) -> None:
        payload = json.dumps(event).encode("utf-8")
        for attempt in itertools.count():
            failure = _failure_of(pool.invoke(payload))
            if failure is None or self._stopping.is_set():
                return
            if attempt == pool.function.retries:
                self._bury(pool.function.name, event, attempt + 1, failure)
                return
            self._stopping.wait(self._limits.retry_delay_s(failure, attempt))

    def _bury(self, function: str, event: object, attempts: int, failure: Failed) -> None:
        record = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "function": function,
            "attempts": attempts,
            "error_type": failure.error_type,
            "message": failure.message,
            "event": event,
        }
        with self._dead_letter_lock, self._dead_letters.open("a", encoding="utf-8") as letters:
            letters.write(json.dumps(record, ensure_ascii=False) + "\n")


def _max_processes(function: Function, limits: Limits, *, routed: bool) -> int:
    if function.every_s:
        return 1
    return limits.max_processes if routed else limits.max_workers


def _failure_of(parts: Iterator[Part]) -> Failed | None:
    """The failure that ends a reply, if one does."""
    failure = None
    for part in parts:
        if isinstance(part, Failed):
            failure = part
    return failure
