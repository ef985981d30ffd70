from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.jobs.naming import (
    ObjectName,
    UploadedObject,
    is_job_id,
    is_session_id,
    job_id_of_object,
    new_job_id,
    new_session_id,
    object_key,
    parse_object_key,
)
from strata.model.jobs import JobKind

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_later_jobs_sort_later() -> None:
    ids = [new_job_id(NOW + timedelta(milliseconds=step)) for step in range(50)]
    assert ids == sorted(ids)
    assert all(is_job_id(job_id) for job_id in ids)


def test_ids_of_one_moment_differ() -> None:
    assert len({new_job_id(NOW) for _ in range(100)}) == 100


def test_a_made_up_session_name_is_a_session_name() -> None:
    assert is_session_id(new_session_id())


@pytest.mark.parametrize("text", ["", "-a", ".a", "a b", "a/b", "a\n", "a" * 101, "é", "a\x00"])
def test_what_cannot_name_a_session_is_known_without_a_store(text: str) -> None:
    assert not is_session_id(text)


@pytest.mark.parametrize("text", ["", "job-", "job-" + "A" * 26, "job-" + "0" * 25, "job-" + "0" * 26 + "\n"])
def test_what_cannot_name_a_job_is_known_without_a_store(text: str) -> None:
    assert not is_job_id(text)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param("uploads/docs/job-1.tar.gz", (JobKind.SNAPSHOT, "docs", "job-1", "tar.gz"), id="tar"),
        pytest.param("uploads/docs/a.zip", (JobKind.SNAPSHOT, "docs", "a", "zip"), id="zip"),
        pytest.param("uploads/docs/a b+c.jsonl", (JobKind.SNAPSHOT, "docs", "a b+c", "jsonl"), id="blank and plus"),
        pytest.param("changes/docs/job-1.jsonl", (JobKind.CHANGES, "docs", "job-1", "jsonl"), id="changes"),
        pytest.param("changes/docs/job-1.zip", None, id="changes are JSON Lines only"),
        pytest.param("uploads/docs/.tar.gz", None, id="no name"),
        pytest.param("uploads/docs/a.rar", None, id="unknown ending"),
        pytest.param("uploads/docs/a/b.zip", None, id="too deep"),
        pytest.param("uploads/a.zip", None, id="no session"),
        pytest.param("uploads/../a.zip", None, id="no session's name"),
        pytest.param("other/docs/a.zip", None, id="another folder"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_key_says_what_it_is_for(key: str, expected: tuple[JobKind, str, str, str] | None) -> None:
    if expected is None:
        assert parse_object_key(key) is None
    else:
        kind, session_id, name, upload_format = expected
        assert parse_object_key(key) == ObjectName(
            kind=kind, session_id=session_id, name=name, upload_format=upload_format
        )


@given(st.text(max_size=200))
def test_no_key_is_too_strange_to_be_looked_at(key: str) -> None:
    named = parse_object_key(key)
    if named is not None:
        assert object_key(named.kind, named.session_id, named.name, named.upload_format) == key


def test_each_version_of_an_object_is_a_job_of_its_own() -> None:
    key = "uploads/docs/snapshot.zip"
    first, again, second = (job_id_of_object(key, version) for version in ("v1", "v1", "v2"))
    assert first == again != second
    assert is_job_id(first)


@pytest.mark.parametrize(
    ("uploaded", "identity"),
    [
        pytest.param(UploadedObject(key="k", size_bytes=1, version="v", sequencer="s", etag="e"), "v", id="version"),
        pytest.param(UploadedObject(key="k", size_bytes=1, sequencer="s", etag="e"), "s", id="sequencer"),
        pytest.param(UploadedObject(key="k", size_bytes=1, etag="e"), "e", id="etag"),
    ],
)
def test_versions_of_an_object_are_told_apart_by_the_best_that_s3_says(uploaded: UploadedObject, identity: str) -> None:
    assert uploaded.identity == identity
