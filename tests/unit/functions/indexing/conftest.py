"""The functions, loaded once a module; a new cloud for each test."""

from __future__ import annotations

from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest

from strata.indexing.drift import DriftReporter
from strata.indexing.linked import LinkFinder
from strata.jobs.mailbox import Mailbox
from strata.jobs.sweeping import Sweep
from strata.jobs.worker import UploadWorker
from tests.support.fake_clock import FakeClock
from tests.support.fake_jobs import FakeJobStore, FakeJobTable
from tests.support.fake_lock import FakeSessionLock
from tests.support.fake_objects import FakeObjectStore
from tests.support.fake_workers import FakeRunner, FakeWorkerCalls
from tests.support.fakes import FakeSessionStore
from tests.support.indexing_cloud import REPORT, Cloud
from tests.support.lambda_events import load_function
from tests.support.link_fakes import FakeLinkReader
from tests.support.use_cases import behind_bootstrap, job_use_cases


@pytest.fixture(scope="module")
def modules() -> tuple[ModuleType, ModuleType, ModuleType]:
    return load_function("index_snapshot"), load_function("index_changes"), load_function("job_status")


@pytest.fixture
def cloud(modules: tuple[ModuleType, ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch) -> Cloud:
    clock = FakeClock()
    table = FakeJobTable(clock=clock)
    sessions, jobs, objects = FakeSessionStore(), FakeJobStore(table), FakeObjectStore()
    runner = FakeRunner(work=lambda _job, _lease, _progress: REPORT)
    calls = FakeWorkerCalls()
    built: dict[str, Any] = job_use_cases(sessions, table, clock=clock, objects=objects, calls=calls)
    mailbox = Mailbox(
        sessions=sessions,
        jobs=jobs,
        lock=FakeSessionLock(table),
        keeper=built["session_keeper"],
        runner=lambda: runner,
        clock=clock,
        lease=timedelta(seconds=60),
    )
    behind_bootstrap(
        monkeypatch,
        **built,
        upload_worker=UploadWorker(lifecycle=built["lifecycle"], jobs=jobs, mailbox=mailbox, calls=calls),
        sweep=Sweep(jobs=jobs, objects=objects, calls=calls, clock=clock),
        drift_reporter=DriftReporter(links=FakeLinkReader(sessions)),
        link_finder=LinkFinder(links=FakeLinkReader(sessions)),
    )
    snapshot, changes, status = modules
    return Cloud(snapshot, changes, status, table, objects, runner, clock, calls)
