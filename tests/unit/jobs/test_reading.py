from __future__ import annotations

from dataclasses import replace

import pytest

from strata.errors import JobNotFound, SessionNotFound
from strata.jobs.reading import JobReader
from strata.model.access import Identity
from strata.model.corpus import ReportedFile
from strata.model.jobs import JobReport
from tests.support.factories import file_entry, identity, job, job_id
from tests.support.fake_jobs import FakeJobStore
from tests.support.fakes import FakeSessionStore


@pytest.fixture
def reader() -> JobReader:
    sessions, jobs = FakeSessionStore(), FakeJobStore()
    sessions.create(
        session_id="docs",
        identity=identity("ann"),
        project_id="docs",
        embedding_model="hashed-256",
        dimension=256,
        pipeline_version="1",
    )
    jobs.create(job())
    jobs.create(job(job_id(2), session_id="gone"))
    return JobReader(sessions=sessions, jobs=jobs)


@pytest.mark.parametrize("who", [identity("eve"), identity("ann", tenant="other")], ids=["stranger", "other tenant"])
def test_a_stranger_cannot_tell_what_exists(reader: JobReader, who: Identity) -> None:
    with pytest.raises(JobNotFound) as of_known:
        reader.job(who, job().job_id)
    with pytest.raises(JobNotFound) as of_unknown:
        reader.job(who, job_id(404))
    assert of_known.value.message == of_unknown.value.message
    for session_id in ("docs", "unknown"):
        with pytest.raises(SessionNotFound):
            reader.session(who, session_id)
        with pytest.raises(SessionNotFound):
            reader.list_jobs(who, session_id)


def test_a_job_whose_session_is_gone_is_not_found(reader: JobReader) -> None:
    with pytest.raises(JobNotFound):
        reader.job(identity("ann"), job_id(2))


@pytest.mark.parametrize("text", ["", "job-1", "../x", "a\x00b", "job-" + "0" * 3_000])
def test_an_impossible_name_is_not_found(reader: JobReader, text: str) -> None:
    with pytest.raises(JobNotFound):
        reader.job(identity("ann"), text)
    with pytest.raises(SessionNotFound):
        reader.session(identity("ann"), f"{text} ")


# --- what a report says about files ---------------------------------------------------------------------------------


def reported(path: str, acl: tuple[str, ...] | None = None) -> ReportedFile:
    return ReportedFile(path=path, reason="empty", acl=acl)


@pytest.mark.parametrize("still_indexed", [True, False], ids=["indexed", "left"])
@pytest.mark.parametrize(
    ("then", "now", "shown"),
    [
        pytest.param(None, None, True, id="no list"),
        pytest.param(("user:ann",), None, True, id="named then"),
        pytest.param(("group:red", "user:bob"), None, False, id="not named then"),
        pytest.param((), None, False, id="nobody then, the owner neither"),
        pytest.param(None, (), False, id="nobody now"),
        pytest.param(("user:ann",), ("user:bob",), False, id="not named any more"),
        pytest.param(("user:bob",), ("user:ann",), False, id="named since then only"),
        pytest.param(("user:ann",), ("user:ann",), True, id="named then and now"),
    ],
)
def test_a_report_names_a_file_to_whom_its_acl_names(
    reader: JobReader, then: tuple[str, ...] | None, now: tuple[str, ...] | None, shown: bool, still_indexed: bool
) -> None:
    sessions, jobs = reader.sessions, reader.jobs
    assert isinstance(sessions, FakeSessionStore)
    if still_indexed:
        sessions.files["docs"] = {"a.md": replace(file_entry("a.md"), acl=now)}
    elif now is not None:
        sessions.left["docs"] = {"a.md": now}
    files = (reported("a.md", then), reported("open.md"))
    report = JobReport(skipped=files, failed=files, notes=files, note_count=7)
    jobs.create(replace(job(job_id(3)), report=report, error_message="A file is broken.", error_about=files[0]))
    paths = ["a.md", "open.md"] if shown else ["open.md"]
    (listed,) = [found for found in reader.list_jobs(identity("ann"), "docs") if found.job_id == job_id(3)]
    for found in (reader.job(identity("ann"), job_id(3)), listed):
        seen = found.report
        assert [[file.path for file in part] for part in (seen.skipped, seen.failed, seen.notes)] == [paths] * 3
        assert seen.note_count == 7
        assert found.error_message == ("empty" if shown else "A file is broken.")
        assert found.error_about == (files[0] if shown else None)


@pytest.mark.parametrize(
    ("then", "now", "shown"),
    [
        pytest.param(None, None, True, id="no list"),
        pytest.param(("user:ann",), ("user:ann",), True, id="named then and now"),
        pytest.param(("user:bob",), None, False, id="not named then"),
        pytest.param(None, ("user:bob",), False, id="not named now"),
    ],
)
def test_a_reason_names_another_file_to_its_readers(
    reader: JobReader, then: tuple[str, ...] | None, now: tuple[str, ...] | None, shown: bool
) -> None:
    assert isinstance(reader.sessions, FakeSessionStore)
    reader.sessions.files["docs"] = {"hr/.gitignore": replace(file_entry("hr/.gitignore"), acl=now)}
    ignored = ReportedFile(
        path="hr/a.md", reason="It is ignored by hr/.gitignore.", named="hr/.gitignore", named_acl=then
    )
    reader.jobs.create(replace(job(job_id(3)), report=JobReport(skipped=(ignored,))))
    (said,) = reader.job(identity("ann"), job_id(3)).report.skipped
    assert said == (ignored if shown else ignored.nameless())
    assert (".gitignore" in said.reason) == shown
