"""When a new index is built beside the live one, and the way back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.errors import (
    LockLost,
    NoEarlierIndex,
)
from strata.indexing import PIPELINE_VERSION
from strata.indexing.side_by_side import SideBySide
from strata.jobs.running import Progress
from strata.model.corpus import Layer, blob_sha_of
from strata.model.jobs import Counters, JobKind
from strata.settings.model import IndexingSettings
from tests.support.indexed_project import FILES, OTHERS, Project, reasons
from tests.support.uploads import json_lines, tar_gz


def previous_paths(project: Project) -> list[str]:
    """The files of the index before the live one."""
    index_id = project.sessions.previous[project.session_id]
    return sorted(project.sessions.indexes[index_id].files)


@pytest.mark.parametrize(("name", "value"), OTHERS)
def test_a_snapshot_moves_a_session_to_the_present_model(project: Project, name: str, value: object) -> None:
    project.session_id = "old"
    project.create("old", **{name: value})
    report = project.snapshot(FILES)
    session = project.sessions.get("old")
    assert session is not None
    assert (session.embedding_model, session.dimension, session.pipeline_version) == (
        project.embedder.model_id,
        project.embedder.dimension,
        PIPELINE_VERSION,
    )
    assert project.paths == sorted(FILES)
    assert report.counters.indexed_files == 3


def test_a_new_index_is_built_when_it_is_asked_for(project: Project) -> None:
    project.snapshot(FILES)
    project.embedder.texts.clear()
    report = project.snapshot({"README.md": FILES["README.md"], "new.md": "# New\n"}, reindex=True)
    assert report.counters == Counters(indexed_files=2, cache_hit_files=1, cache_miss_files=1, deleted_files=2)
    assert (report.generation, project.paths) == (2, ["README.md", "new.md"])
    assert previous_paths(project) == sorted(FILES)


@pytest.mark.parametrize(("new_index_files", "built"), [(3, True), (4, False)])
def test_a_new_index_is_built_when_much_is_written(project: Project, new_index_files: int, built: bool) -> None:
    project.settings = replace(project.settings, new_index_files=new_index_files)
    project.snapshot({"old.md": "# Old\n"})
    project.snapshot(FILES)
    assert ("filling" in {progress.phase for progress in project.told}) == built
    assert project.paths == sorted(FILES)


@pytest.mark.parametrize(("first_files", "built"), [(3, True), (4, False)])
def test_an_empty_session_gets_a_new_index_sooner(
    project: Project, monkeypatch: pytest.MonkeyPatch, first_files: int, built: bool
) -> None:
    monkeypatch.setattr("strata.indexing.pipeline.FIRST_FILES", first_files)
    project.snapshot(FILES)
    assert ("filling" in {progress.phase for progress in project.told}) == built
    project.told.clear()
    project.snapshot(FILES | {"a.txt": "other\n", "b.txt": "other\n", "c.txt": "other\n"})
    assert "filling" not in {progress.phase for progress in project.told}


@pytest.mark.parametrize(("drift", "built"), [(0.11, True), (0.1, False)])
def test_a_new_index_is_built_when_average_lengths_have_drifted(project: Project, drift: float, built: bool) -> None:
    project.snapshot({"old.md": "# Old\n"})
    project.sessions.drift = drift
    project.snapshot(FILES)
    project.change({"op": "upsert", "path": "c.txt", "content": "changes stay in place"})
    assert ("filling" in {progress.phase for progress in project.told}) == built


def test_a_file_sent_by_its_hash_is_prepared_anew_from_what_is_on_record(project: Project) -> None:
    project.snapshot(FILES)
    old = replace(project.sessions.sessions["docs"], pipeline_version="0")
    project.sessions.sessions["docs"] = old
    project.cache.blobs = {
        replace(key, pipeline_version="0"): replace(blob, key=replace(key, pipeline_version="0"))
        for key, blob in project.cache.blobs.items()
    }
    known = {"path": "a.txt", "content_hash": blob_sha_of(b"plain\n")}
    unknown = {"path": "b.txt", "content_hash": blob_sha_of(b"never seen\n")}
    report = project.snapshot(json_lines(known, unknown), "jsonl")
    assert reasons(report.failed).keys() == {"b.txt"}
    assert (project.paths, project.text_of("a.txt")) == (["a.txt"], "a.txt\nplain\nplain")


def test_a_build_that_is_broken_off_goes_on_where_it_stopped(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.indexing.new_index.FILL_FILES", 1)
    project.snapshot({"old.md": "# Old\n"})
    body = tar_gz(FILES)
    made, lease = project.accepted(body, JobKind.SNAPSHOT)
    made = replace(made, reindex=True)

    def until_two_are_filled(progress: Progress) -> None:
        if progress.phase == "filling" and progress.done_files == 2:
            raise LockLost

    with pytest.raises(LockLost):
        project.indexer().index_snapshot(made, lease, "tar.gz", until_two_are_filled)
    assert project.paths == ["old.md"]
    (begun,) = [index for index in project.sessions.indexes.values() if index.job_id == made.job_id]
    assert len(begun.files) == 2
    later = replace(lease, fence=lease.fence + 1)
    project.told.clear()
    report = project.indexer().index_snapshot(made, later, "tar.gz", project.told.append)
    assert (report.generation, project.paths) == (2, sorted(FILES))
    filling = [progress for progress in project.told if progress.phase == "filling"]
    told = [(progress.done_files, progress.written_files) for progress in filling]
    assert told[:4] == [(0, 0), (1, 0), (2, 0), (3, 1)]
    assert set(told[4:]) == {(3, 1)}  # while it is counted
    again = project.indexer().index_snapshot(made, later, "tar.gz", project.told.append)
    assert (again.generation, again.chunks) == (report.generation, report.chunks)
    assert project.sessions.sessions["docs"].generation == 2


STEPS = ("tidy", "build_term_blocks", "build_cells")


@pytest.mark.parametrize("step", STEPS)
def test_an_index_is_made_fast_once_it_is_counted_before_it_goes_live(
    project: Project, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr("strata.indexing.new_index.FILL_FILES", 1)
    project.snapshot({"old.md": "# Old\n"})
    found: list[tuple[int, set[Layer], list[str]]] = []

    def watched(index_id: int) -> None:
        index = project.sessions.indexes[index_id]
        found.append((len(index.files), set(index.counted), project.paths))

    monkeypatch.setattr(project.sessions, step, watched)
    project.snapshot(FILES, reindex=True)
    assert found == [(len(FILES), set(Layer), ["old.md"])]


@pytest.mark.parametrize("step", STEPS)
def test_the_first_index_of_a_session_is_made_fast_once_it_is_live(
    project: Project, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    found: list[list[str]] = []
    monkeypatch.setattr(project.sessions, step, lambda _: found.append(project.paths))
    project.snapshot(FILES, reindex=True)
    assert found == [sorted(FILES)]


def test_few_files_start_no_process(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(SideBySide, "results", refused)
    project.settings = IndexingSettings(prepare_workers=2, new_index_files=1)
    project.snapshot(FILES)
    project.snapshot({"new.md": "# New\n"}, reindex=True)
    assert project.paths == ["new.md"]


def test_a_roll_back_makes_the_index_before_the_live_one(project: Project) -> None:
    project.snapshot(FILES)
    project.snapshot({"new.md": "# New\n"}, reindex=True)
    made, lease = project.accepted(b"\n", JobKind.ROLLBACK)
    report = project.indexer().roll_back(made, lease, project.told.append)
    assert (report.generation, project.paths) == (3, sorted(FILES))
    assert report.chunks == sum(map(len, project.sessions.chunks["docs"].values()))


def test_a_roll_back_without_an_index_before_changes_nothing(project: Project) -> None:
    project.snapshot(FILES)
    made, lease = project.accepted(b"\n", JobKind.ROLLBACK)
    with pytest.raises(NoEarlierIndex):
        project.indexer().roll_back(made, lease, project.told.append)
    assert project.paths == sorted(FILES)
