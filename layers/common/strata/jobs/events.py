"""A job's events: what they say, how they are waited for, and how they read as server-sent events."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from strata.errors import JobNotFound
from strata.jobs.running import Progress
from strata.model.jobs import Job, JobEvent, JobStatus
from strata.ports.jobs import JobStore

INDEX_STATUS = "index_status"
TERMINAL = "terminal"
LONGEST_WAIT_S = 20.0
RECONNECT_AFTER_MS = 500


def status_data(status: JobStatus, progress: Progress) -> dict[str, Any]:
    """The data of an `index_status` event."""
    return {
        "status": status.value,
        "phase": progress.phase,
        "done_files": progress.done_files,
        "total_files": progress.total_files,
        "counters": asdict(progress.counters),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What came after the event that the reader knows."""

    job: Job
    events: tuple[JobEvent, ...]

    @property
    def over(self) -> bool:
        """Nothing has come and nothing can: the reader knows the terminal event."""
        return self.job.status.ended and not self.events


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFeed:
    """Reads a job's events by long poll: at once what is there, else what comes within the wait."""

    jobs: JobStore
    poll_every_s: float = 0.3
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic

    def after(self, job_id: str, seq: int, *, wait_s: float) -> News:
        """Waits at most `wait_s` (20 s at most); a job that has ended is not waited for. Raises `JobNotFound`."""
        until = self.monotonic() + min(wait_s, LONGEST_WAIT_S)
        while True:
            # The job first: its end and its terminal event are written together, so an ended job has all its events.
            job = self.jobs.get(job_id)
            if job is None:
                raise JobNotFound
            events = tuple(self.jobs.events_after(job_id, seq))
            left_s = until - self.monotonic()
            if events or job.status.ended or left_s <= 0:
                if any(event.name == TERMINAL for event in events) and not job.status.ended:
                    job = self.jobs.get(job_id) or job  # it ended between the two reads
                return News(job=job, events=events)
            self.sleep(min(self.poll_every_s, left_s))

    def ended(self, job_id: str, *, wait_s: float) -> Job:
        """The job at its end, or as it is when the wait is over. Raises `JobNotFound`."""
        until, seq = self.monotonic() + wait_s, 0
        while True:
            news = self.after(job_id, seq, wait_s=until - self.monotonic())
            if news.job.status.ended or self.monotonic() >= until:
                return news.job
            seq = max((event.seq for event in news.events), default=seq)


def sse_text(events: Iterable[JobEvent], *, terminal: Mapping[str, Any]) -> str:
    """Events as `text/event-stream`; `terminal` is the data of the terminal event (the job's final view).

    Ends with `retry:`, so that a client whose poll has ended comes back soon.
    """
    frames = [
        f"id: {event.seq}\nevent: {event.name}\ndata: {_json(terminal if event.name == TERMINAL else event.data)}\n\n"
        for event in events
    ]
    return "".join(frames or [": nothing new\n\n"]) + f"retry: {RECONNECT_AFTER_MS}\n\n"


def _json(data: Mapping[str, Any]) -> str:
    # ASCII only: U+2028 and its kind end a line for some readers of event streams.
    return json.dumps(data, separators=(",", ":"))
