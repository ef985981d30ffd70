"""A job tells how far it is, and goes on where it was broken off."""

from __future__ import annotations

import numpy as np
import pytest

from strata.errors import (
    LockLost,
)
from strata.jobs.running import Progress
from strata.model.jobs import Counters
from tests.support.indexed_project import FILES, Files, Project


def test_progress_goes_through_the_phases(project: Project) -> None:
    project.snapshot({**FILES, "empty.md": ""})
    assert list(dict.fromkeys(progress.phase for progress in project.told)) == [
        "reading",
        "planning",
        "preparing",
        "committing",
    ]
    last = project.told[-1]
    assert (last.done_files, last.total_files) == (3, 3)
    assert last.counters == Counters(cache_miss_files=3, skipped_files=1)
    done = [progress.done_files for progress in project.told if progress.phase == "preparing"]
    assert done == sorted(done)


@pytest.mark.parametrize("phase", ["reading", "planning", "preparing", "committing"])
def test_a_lost_lock_comes_through_and_nothing_is_committed(project: Project, phase: str) -> None:
    def lose(progress: Progress, /) -> None:
        if progress.phase == phase:
            raise LockLost

    with pytest.raises(LockLost):
        project.snapshot(FILES, progress=lose)
    assert project.paths == []


def test_a_job_that_was_interrupted_goes_on_from_the_cache(project: Project) -> None:
    files: Files = {f"{number:03}.md": f"# {number}\n" for number in range(150)}

    def lose(progress: Progress, /) -> None:
        if progress.done_files >= 64 and progress.phase == "preparing":
            raise LockLost

    with pytest.raises(LockLost):
        project.snapshot(files, progress=lose)
    embedded = len(project.embedder.texts)
    report = project.snapshot(files)
    assert report.counters == Counters(indexed_files=150, cache_hit_files=64, cache_miss_files=86)
    assert not set(project.embedder.texts[embedded:]) & set(project.embedder.texts[:embedded])


def test_vectors_reach_the_index_as_they_were_made(project: Project) -> None:
    project.snapshot(FILES)
    for chunks in project.sessions.chunks["docs"].values():
        for embedded in chunks:
            expected = project.embedder.embed_query(embedded.chunk.embedded_text)
            assert np.allclose(embedded.embedding, expected)
