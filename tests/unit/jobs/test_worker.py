from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from strata.jobs.naming import UploadedObject
from strata.jobs.worker import UploadWorker
from tests.support.fake_jobs import FakeJobStore
from tests.support.fake_workers import FakeWorkerCalls


@dataclass
class Recorder:
    """Stands for the lifecycle and for the mailbox; `calls` is what was asked, in order."""

    calls: list[tuple[str, str]] = field(default_factory=list)

    def accept_upload(self, uploaded: UploadedObject) -> str | None:
        self.calls.append(("accept", uploaded.key))
        return uploaded.key.split("/")[1] if uploaded.key.startswith("uploads/") else None

    def drain(self, session_id: str, **_: Any) -> None:
        self.calls.append(("drain", session_id))


def test_everything_is_accepted_before_each_session_is_drained_once() -> None:
    recorder = Recorder()
    keys = ["uploads/a/1.zip", "elsewhere", "uploads/b/2.zip", "uploads/a/3.zip"]
    worker = UploadWorker(
        lifecycle=recorder,  # type: ignore[arg-type]
        jobs=FakeJobStore(),
        mailbox=recorder,  # type: ignore[arg-type]
        calls=FakeWorkerCalls(),
    )
    worker.work([UploadedObject(key=key, size_bytes=1) for key in keys], owner="x", remaining_s=lambda: 900.0)
    assert recorder.calls == [*(("accept", key) for key in keys), ("drain", "a"), ("drain", "b")]
