"""Changes touch only their paths."""

from __future__ import annotations

import base64

import pytest

from strata.model.jobs import Counters
from tests.support.indexed_project import FILES, Project


def test_changes_touch_only_their_paths(project: Project) -> None:
    project.snapshot(FILES)
    report = project.change(
        {"path": "src/app.py", "op": "upsert", "content": "def buy():\n    return 2\n"},
        {"path": "a.txt", "op": "delete"},
        {"path": "never.there", "op": "delete"},
        {"path": "new.md", "content_b64": base64.b64encode(b"# New\n").decode()},
    )
    assert project.paths == ["README.md", "new.md", "src/app.py"]
    assert "def buy()" in project.text_of("src/app.py")
    assert report.counters == Counters(indexed_files=2, cache_miss_files=2, deleted_files=1)


@pytest.mark.parametrize(
    ("ops", "paths"),
    [
        pytest.param(["upsert", "delete"], [], id="written, then deleted"),
        pytest.param(["delete", "upsert"], ["a.md"], id="deleted, then written"),
        pytest.param(["upsert", "delete", "upsert"], ["a.md"], id="and back"),
    ],
)
def test_the_last_operation_on_a_path_wins(project: Project, ops: list[str], paths: list[str]) -> None:
    project.change(*({"path": "a.md", "op": op, "content": f"# {n}\n"} for n, op in enumerate(ops)))
    assert project.paths == paths


def test_a_change_to_something_unfit_removes_the_file(project: Project) -> None:
    project.snapshot(FILES)
    report = project.change({"path": "a.txt", "content": ""}, {"path": ".env", "content": "A=1"})
    assert project.paths == ["README.md", "src/app.py"]
    assert report.counters == Counters(skipped_files=2, deleted_files=1)


def test_a_change_that_changes_nothing_is_a_hit(project: Project) -> None:
    project.snapshot(FILES)
    assert project.change({"path": "a.txt", "content": "plain\n"}).counters == Counters(cache_hit_files=1)


def test_changes_obey_no_ignore_file(project: Project) -> None:
    """A path that a caller names is wanted; ignore files are about what a whole project brings along."""
    project.change({"path": ".gitignore", "content": "*.log\n"}, {"path": "a.log", "content": "log\n"})
    assert project.paths == [".gitignore", "a.log"]
