from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import pytest

from strata.errors import EmbeddingModelMismatch, SessionNameTaken, SessionNotFound, UploadTooLarge
from strata.jobs.lifecycle import Lifecycle
from strata.jobs.naming import UploadedObject, is_job_id
from strata.jobs.reading import JobReader
from strata.model.jobs import Job, JobKind, JobStatus
from tests.support.factories import identity, job, job_id
from tests.support.fake_clock import FakeClock
from tests.support.fake_jobs import FakeJobStore, FakeJobTable
from tests.support.fake_objects import FakeObjectStore
from tests.support.fakes import FakeSessionStore
from tests.support.use_cases import make_lifecycle

ANN, BOB = identity("ann"), identity("bob", groups=["readers"])


@dataclass
class Desk:
    sessions: FakeSessionStore
    table: FakeJobTable
    jobs: FakeJobStore
    objects: FakeObjectStore
    lifecycle: Lifecycle

    def upload(self, opened: Job, *, version: str = "v1") -> str | None:
        return self.lifecycle.accept_upload(UploadedObject(key=opened.object_key, size_bytes=3, version=version))

    def status(self, found: Job) -> JobStatus:
        stored = self.jobs.get(found.job_id)
        assert stored is not None
        return stored.status


@pytest.fixture
def desk() -> Desk:
    clock = FakeClock()
    table = FakeJobTable(clock=clock)
    sessions, jobs, objects = FakeSessionStore(), FakeJobStore(table), FakeObjectStore()
    lifecycle = make_lifecycle(sessions, jobs, objects, clock, max_archive_bytes=1_000, max_inline_bytes=100)
    return Desk(sessions, table, jobs, objects, lifecycle)


def test_opening_a_snapshot_makes_a_session_a_job_and_says_where_the_content_goes(desk: Desk) -> None:
    opened = desk.lifecycle.open_snapshot(ANN, session_id="docs", readers=["group:readers"], upload_format="zip")
    assert opened.created
    assert (opened.session.owner, opened.session.readers) == ("user:ann", ("group:readers",))
    assert (opened.job.status, opened.job.kind, opened.job.seq) == (JobStatus.AWAITING_UPLOAD, JobKind.SNAPSHOT, None)
    assert opened.job.object_key == f"uploads/docs/{opened.job.job_id}.zip"
    assert opened.upload is not None
    assert opened.upload.fields == {"key": opened.job.object_key, "Content-Type": "application/zip"}
    assert desk.jobs.get(opened.job.job_id) == opened.job


def test_a_session_without_a_name_gets_one(desk: Desk) -> None:
    names = {desk.lifecycle.open_snapshot(ANN).session.session_id for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("session-") for name in names)


def test_opening_again_makes_another_job_in_the_same_session(desk: Desk) -> None:
    first = desk.lifecycle.open_snapshot(ANN, session_id="docs")
    second = desk.lifecycle.open_snapshot(ANN, session_id="docs")
    assert not second.created
    assert second.session == first.session
    assert second.job.job_id != first.job.job_id


def test_a_name_that_is_taken_is_refused_without_a_job(desk: Desk) -> None:
    desk.lifecycle.open_snapshot(ANN, session_id="docs", readers=["user:bob"])
    with pytest.raises(SessionNameTaken):
        desk.lifecycle.open_snapshot(BOB, session_id="docs")
    assert len(desk.table.jobs) == 1


def test_inline_content_is_stored_and_accepted_at_once(desk: Desk) -> None:
    opened = desk.lifecycle.open_snapshot(ANN, session_id="docs", upload_format="zip", inline=b"{}\n")
    assert opened.upload is None
    assert desk.objects.objects == {f"uploads/docs/{opened.job.job_id}.jsonl": b"{}\n"}
    assert (opened.job.status, opened.job.seq, opened.job.object_version) == (JobStatus.QUEUED, 1, "v1")


def test_too_much_inline_content_is_refused_before_anything_is_made(desk: Desk) -> None:
    with pytest.raises(UploadTooLarge, match="100 bytes"):
        desk.lifecycle.open_snapshot(ANN, session_id="docs", inline=b"x" * 101)
    assert desk.sessions.sessions == {}
    desk.lifecycle.open_snapshot(ANN, session_id="docs", inline=b"x" * 100)
    with pytest.raises(UploadTooLarge, match="100 bytes"):
        desk.lifecycle.open_changes(ANN, "docs", b"x" * 101)
    assert (len(desk.table.jobs), len(desk.objects.objects)) == (1, 1)


def test_changes_are_stored_then_accepted(desk: Desk) -> None:
    desk.lifecycle.open_snapshot(ANN, session_id="docs")
    changes = desk.lifecycle.open_changes(ANN, "docs", b"{}\n")
    assert (changes.kind, changes.status, changes.seq) == (JobKind.CHANGES, JobStatus.QUEUED, 1)
    assert desk.objects.objects == {f"changes/docs/{changes.job_id}.jsonl": b"{}\n"}


@pytest.mark.parametrize(
    ("who", "session_id"),
    [
        pytest.param(ANN, "unknown", id="no such session"),
        pytest.param(ANN, "no session\x00", id="no session's name"),
        pytest.param(BOB, "docs", id="a reader may not write"),
        pytest.param(identity("eve"), "docs", id="a stranger"),
        pytest.param(identity("ann", tenant="other"), "docs", id="the owner's name in another tenant"),
    ],
)
def test_only_the_owner_changes_a_session(desk: Desk, who: object, session_id: str) -> None:
    desk.lifecycle.open_snapshot(ANN, session_id="docs", readers=["group:readers"])
    with pytest.raises(SessionNotFound):
        desk.lifecycle.open_changes(who, session_id, b"{}\n")  # type: ignore[arg-type]
    assert desk.objects.objects == {}


def test_another_embedding_model_is_refused_with_what_to_run(desk: Desk) -> None:
    desk.lifecycle.open_snapshot(ANN, session_id="docs")
    changed = replace(desk.lifecycle, embedding_model="minilm", dimension=384)
    with pytest.raises(EmbeddingModelMismatch, match=r"hashed-256 .*minilm.*strata index .*--reindex"):
        changed.open_changes(ANN, "docs", b"{}\n")
    assert len(desk.table.jobs) == 1


def test_a_snapshot_may_bring_another_embedding_model(desk: Desk) -> None:
    desk.lifecycle.open_snapshot(ANN, session_id="docs")
    changed = replace(desk.lifecycle, embedding_model="minilm", dimension=384)
    assert changed.open_snapshot(ANN, session_id="docs").upload is not None


@pytest.mark.parametrize("reindex", [False, True])
def test_a_job_remembers_that_a_new_index_was_asked_for(desk: Desk, reindex: bool) -> None:
    opened = desk.lifecycle.open_snapshot(ANN, session_id="docs", reindex=reindex).job
    desk.upload(opened)
    stored = desk.jobs.get(opened.job_id)
    assert stored is not None
    assert (stored.reindex, stored.status) == (reindex, JobStatus.QUEUED)


def test_a_roll_back_is_a_job_in_the_order_that_its_notification_finds(desk: Desk) -> None:
    desk.lifecycle.open_snapshot(ANN, session_id="docs")
    job = desk.lifecycle.open_roll_back(ANN, "docs")
    assert (job.kind, job.status, job.seq) == (JobKind.ROLLBACK, JobStatus.QUEUED, 1)
    assert desk.upload(job) == "docs"
    assert len(desk.table.jobs) == 2


def test_only_the_owner_rolls_back(desk: Desk) -> None:
    desk.lifecycle.open_snapshot(ANN, session_id="docs", readers=["group:readers"])
    with pytest.raises(SessionNotFound):
        desk.lifecycle.open_roll_back(identity("bob", groups=["readers"]), "docs")


def test_an_upload_queues_its_job_and_names_the_session_to_work_on(desk: Desk) -> None:
    opened = desk.lifecycle.open_snapshot(ANN, session_id="docs").job
    assert desk.upload(opened) == "docs"
    stored = desk.jobs.get(opened.job_id)
    assert stored is not None
    assert (stored.status, stored.seq, stored.object_version) == (JobStatus.QUEUED, 1, "v1")


def test_duplicate_events_change_nothing_but_name_the_session_again(desk: Desk) -> None:
    opened = desk.lifecycle.open_snapshot(ANN, session_id="docs").job
    assert [desk.upload(opened, version=version) for version in ("v1", "v1", "v2")] == ["docs"] * 3
    stored = desk.jobs.get(opened.job_id)
    assert stored is not None
    assert (stored.seq, stored.object_version) == (1, "v1")


@pytest.mark.parametrize("order", list(itertools.permutations(range(6)))[::97])
def test_events_in_any_order_and_number_give_each_job_one_place(desk: Desk, order: tuple[int, ...]) -> None:
    opened = [desk.lifecycle.open_snapshot(ANN, session_id="docs").job for _ in range(2)]
    for number in order:
        desk.upload(opened[number % 2])
    assert sorted(desk.table.places) == [("docs", 1), ("docs", 2)]
    assert sorted(desk.table.places.values()) == sorted(found.job_id for found in opened)


def test_the_event_may_overtake_the_request_that_stored_the_content(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.lifecycle.open_snapshot(ANN, session_id="docs")
    put = desk.objects.put

    def put_and_notify(key: str, body: bytes, *, content_type: str) -> object:
        stored = put(key, body, content_type=content_type)
        desk.lifecycle.accept_upload(UploadedObject(key=key, size_bytes=len(body), version=stored.version))
        return stored

    monkeypatch.setattr(desk.objects, "put", put_and_notify)
    changes = desk.lifecycle.open_changes(ANN, "docs", b"{}\n")
    assert (changes.status, changes.seq) == (JobStatus.QUEUED, 1)
    assert len(desk.table.places) == 1


def test_a_foreign_upload_into_a_session_becomes_a_job(desk: Desk) -> None:
    desk.lifecycle.open_snapshot(ANN, session_id="docs")
    key = "uploads/docs/this im + age blah.zip"
    for version in ("a", "a", "b"):
        assert desk.lifecycle.accept_upload(UploadedObject(key=key, size_bytes=1, version=version)) == "docs"
    made = [found for found in desk.table.jobs.values() if found.object_key == key]
    assert sorted((found.seq, found.object_version) for found in made) == [(1, "a"), (2, "b")]
    assert all(is_job_id(found.job_id) and found.tenant == "acme" for found in made)


def test_a_foreign_upload_may_choose_its_jobs_id(desk: Desk) -> None:
    desk.lifecycle.open_snapshot(ANN, session_id="docs")
    key = f"changes/docs/{job_id(7)}.jsonl"
    assert desk.lifecycle.accept_upload(UploadedObject(key=key, size_bytes=1)) == "docs"
    made = desk.jobs.get(job_id(7))
    assert made is not None
    assert (made.kind, made.seq) == (JobKind.CHANGES, 1)


def test_a_job_that_another_delivery_made_first_is_taken(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.lifecycle.open_snapshot(ANN, session_id="docs")
    create = desk.jobs.create

    def made_meanwhile(made: Job) -> None:
        create(made)
        create(made)

    monkeypatch.setattr(desk.jobs, "create", made_meanwhile)
    assert desk.lifecycle.accept_upload(UploadedObject(key=f"uploads/docs/{job_id(7)}.zip", size_bytes=1)) == "docs"
    assert desk.table.places == {("docs", 1): job_id(7)}


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        pytest.param("uploads/unknown/job.zip", "no such session", id="unknown session"),
        pytest.param("uploads/docs/job.exe", "The key", id="unknown ending"),
        pytest.param("uploads/docs/deep/er.zip", "The key", id="too deep"),
        pytest.param("elsewhere/docs/job.zip", "The key", id="another folder"),
        pytest.param(f"uploads/docs/{job_id(1)}.zip", "another object", id="another format than the job's"),
        pytest.param(f"changes/docs/{job_id(1)}.jsonl", "another object", id="another kind than the job's"),
        pytest.param(f"uploads/other/{job_id(1)}.tar.gz", "another object", id="another session's job"),
        pytest.param(f"uploads/docs/{job_id(2)}.tar.gz", "had ended", id="the job had expired"),
    ],
)
def test_what_belongs_nowhere_is_a_dead_letter(desk: Desk, key: str, reason: str) -> None:
    desk.lifecycle.open_snapshot(ANN, session_id="docs")
    desk.lifecycle.open_snapshot(BOB, session_id="other")
    desk.jobs.create(job(job_id(1)))
    desk.jobs.create(job(job_id(2)))
    desk.jobs.reject(replace(job(job_id(2)), status=JobStatus.EXPIRED))
    assert desk.lifecycle.accept_upload(UploadedObject(key=key, size_bytes=1, version="v")) is None
    (letter,) = desk.table.dead_letters.values()
    assert (letter.object_key, letter.object_version) == (key, "v")
    assert reason in letter.reason
    assert desk.table.places == {}


def test_readers_see_sessions_and_jobs_and_strangers_see_nothing(desk: Desk) -> None:
    opened = desk.lifecycle.open_snapshot(ANN, session_id="docs", readers=["group:readers"]).job
    reader = JobReader(sessions=desk.sessions, jobs=desk.jobs)
    for who in (ANN, BOB):
        assert reader.job(who, opened.job_id) == opened
        assert reader.list_jobs(who, "docs") == [opened]
        assert [found.session_id for found in reader.list_sessions(who)] == ["docs"]
    assert reader.list_sessions(identity("eve")) == []
