from __future__ import annotations

import pytest

from strata.errors import JobNotFound, SessionNotFound
from strata.jobs.reading import JobReader
from strata.model.access import Identity
from tests.support.factories import identity
from tests.support.fakes import FakeSessionStore
from tests.support.job_fakes import FakeJobStore, job, job_id


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
