"""The use cases behind the functions, on fakes, in the place of those that bootstrap would build."""

from __future__ import annotations

from datetime import timedelta

import pytest

from strata.jobs.controlling import JobControl
from strata.jobs.events import EventFeed
from strata.jobs.keeping import SessionKeeper
from strata.jobs.lifecycle import Lifecycle
from strata.jobs.reading import JobReader
from strata.ports.sessions import SessionStore
from tests.support.built import MODULES
from tests.support.fake_clock import FakeClock
from tests.support.fake_jobs import FakeJobStore, FakeJobTable
from tests.support.fake_lock import FakeSessionLock
from tests.support.fake_objects import FakeObjectStore
from tests.support.fake_workers import FakeWorkerCalls


def make_lifecycle(
    sessions: SessionStore, jobs: FakeJobStore, objects: FakeObjectStore, clock: FakeClock, **limits: int
) -> Lifecycle:
    return Lifecycle(
        sessions=sessions,
        jobs=jobs,
        objects=objects,
        clock=clock,
        embedding_model="hashed-256",
        dimension=256,
        pipeline_version="1",
        **{"max_archive_bytes": 1_000_000, "max_inline_bytes": 10_000, "upload_expires_in_s": 60, **limits},
    )


def job_use_cases(
    sessions: SessionStore, table: FakeJobTable, *, clock: FakeClock, objects: FakeObjectStore, calls: FakeWorkerCalls
) -> dict[str, object]:
    """What opens, shows and controls jobs and sessions, by the name of its factory."""
    jobs = FakeJobStore(table)
    lifecycle = make_lifecycle(sessions, jobs, objects, clock)
    return {
        "lifecycle": lifecycle,
        "session_keeper": SessionKeeper(
            sessions=sessions,
            jobs=jobs,
            lock=FakeSessionLock(table),
            objects=objects,
            calls=calls,
            clock=clock,
            lease=timedelta(seconds=60),
        ),
        "job_control": JobControl(
            sessions=sessions, jobs=jobs, objects=objects, lifecycle=lifecycle, calls=calls, clock=clock
        ),
        "job_reader": JobReader(sessions=sessions, jobs=jobs),
        "event_feed": EventFeed(jobs=jobs, sleep=clock.sleep, monotonic=clock.monotonic),
    }


def behind_bootstrap(monkeypatch: pytest.MonkeyPatch, **use_cases: object) -> None:
    for name, use_case in use_cases.items():
        module = next(module for module in MODULES if hasattr(module, name))
        monkeypatch.setattr(module, name, lambda use_case=use_case: use_case)
