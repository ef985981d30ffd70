"""A job that is refused writes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.errors import (
    CorruptArchive,
    EmbeddingModelMismatch,
    SessionNotFound,
    StaleFence,
    UnsafeEntry,
    UploadTooLarge,
)
from strata.model.jobs import JobKind
from tests.support.indexed_project import FILES, OTHERS, Project
from tests.support.uploads import json_lines, tar_gz


@pytest.mark.parametrize(
    ("body", "upload_format", "error"),
    [
        pytest.param(b"garbage", "tar.gz", CorruptArchive, id="no archive"),
        pytest.param(tar_gz({"ok.md": "# OK\n", "../x.md": "x"}), "tar.gz", UnsafeEntry, id="a path that leaves"),
        pytest.param(tar_gz({"big.md": b"\0" * 40_000_000}), "tar.gz", UploadTooLarge, id="a bomb"),
        pytest.param(tar_gz({"a.md": "# A\n" * 500})[:-20], "tar.gz", CorruptArchive, id="cut short"),
        pytest.param(json_lines({"path": "ok.md", "content": "x"}) + b"{", "jsonl", CorruptArchive, id="a bad line"),
    ],
)
def test_a_refused_upload_changes_nothing(
    project: Project, body: bytes, upload_format: str, error: type[Exception]
) -> None:
    project.snapshot(FILES)
    files, blobs = dict(project.sessions.files["docs"]), dict(project.cache.blobs)
    with pytest.raises(error):
        project.snapshot(body, upload_format)
    assert (project.sessions.files["docs"], project.cache.blobs) == (files, blobs)
    session = project.sessions.get("docs")
    assert session is not None
    assert session.generation == 1


@pytest.mark.parametrize(("name", "value"), OTHERS)
def test_changes_of_a_session_of_another_model_are_refused_before_anything_is_read(
    project: Project, name: str, value: object
) -> None:
    project.session_id = "old"
    project.create("old", **{name: value})
    with pytest.raises(EmbeddingModelMismatch, match="strata index PATH --session NAME --reindex"):
        project.change({"op": "upsert", "path": "a.txt", "content": "x"})
    assert (project.embedder.texts, project.told) == ([], [])


def test_a_session_that_is_gone_is_not_found(project: Project) -> None:
    del project.sessions.sessions["docs"]
    with pytest.raises(SessionNotFound):
        project.snapshot(FILES)


def test_an_older_fence_writes_nothing(project: Project) -> None:
    old_job, old_lease = project.accepted(tar_gz({"old.md": "# Old\n"}), JobKind.SNAPSHOT)
    project.snapshot(FILES)
    with pytest.raises(StaleFence):
        project.indexer().index_snapshot(old_job, old_lease, "tar.gz", lambda progress: None)
    assert project.paths == sorted(FILES)


def test_a_job_done_twice_counts_once(project: Project) -> None:
    made, lease = project.accepted(tar_gz(FILES), JobKind.SNAPSHOT)
    first = project.indexer().index_snapshot(made, lease, "tar.gz", lambda progress: None)
    assert project.indexer().index_snapshot(made, lease, "tar.gz", lambda progress: None) == first


def test_a_job_that_was_never_accepted_is_a_mistake_of_ours(project: Project) -> None:
    made, lease = project.accepted(tar_gz(FILES), JobKind.SNAPSHOT)
    with pytest.raises(ValueError, match="never accepted"):
        project.indexer().index_snapshot(replace(made, seq=None), lease, "tar.gz", lambda progress: None)
