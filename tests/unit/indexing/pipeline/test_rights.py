"""A file's list of readers: what it comes with, what it keeps, what opens it."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from tests.support.indexed_project import Files, Project
from tests.support.uploads import json_lines, tar_gz, zipped


@pytest.mark.parametrize("reindex", [False, True])
@pytest.mark.parametrize(("pack", "upload_format"), [(tar_gz, "tar.gz"), (zipped, "zip")])
def test_an_archive_keeps_the_rights_that_it_has_no_place_for(
    project: Project, pack: Callable[[Files], bytes], upload_format: str, reindex: bool
) -> None:
    restricted = [
        {"path": path, "content": "x = 1\n", "acl": ["user:ann"]} for path in ("same.py", "new.py", "bad.py", "gone.py")
    ]
    project.snapshot(json_lines(*restricted, {"path": "open.py", "content": "x = 1\n"}), "jsonl")
    files: Files = {"same.py": "x = 1\n", "new.py": "y = (\n", "bad.py": b"\xff\xfe\xfa", "open.py": "z = 1\n"}
    report = project.snapshot(pack(files), upload_format, reindex=reindex)
    rights = {path: entry.acl for path, entry in project.sessions.files["docs"].items()}
    assert rights == {"same.py": ("user:ann",), "new.py": ("user:ann",), "open.py": None}
    said = {file.path: file.acl for file in (*report.failed, *report.notes)}
    assert said == {"bad.py": ("user:ann",), "new.py": ("user:ann",)}


SECRET = {"path": "secret.md", "content": "# Secret\n"}

Way = Callable[[Project], object]

LEAVES: dict[str, Way] = {
    "not in a snapshot": lambda project: project.snapshot({"open.md": "# Open\n"}),
    "not in a new index": lambda project: project.snapshot({"open.md": "# Open\n"}, reindex=True),
    "deleted by a change": lambda project: project.change({"op": "delete", "path": "secret.md"}),
    "unreadable": lambda project: project.snapshot({"open.md": "# Open\n", "secret.md": b"\xff\xfe\xfa"}),
    "unreadable in a new index": lambda project: project.snapshot({"secret.md": b"\xff\xfe\xfa"}, reindex=True),
    "unreadable in a change": lambda project: project.change(
        {"path": "secret.md", "content_b64": base64.b64encode(b"\xff\xfe\xfa").decode()}
    ),
    "empty": lambda project: project.change({"path": "secret.md", "content": " \n"}),
    "ignored": lambda project: project.snapshot({".gitignore": "secret.md\n", "secret.md": "# Secret\n"}),
    "never": lambda project: None,
}

RETURNS: dict[str, Way] = {
    "archive": lambda project: project.snapshot({"secret.md": "# Secret\n"}),
    "archive for a new index": lambda project: project.snapshot({"secret.md": "# Secret\n"}, reindex=True),
    "zip": lambda project: project.snapshot(zipped({"secret.md": "# Secret\n"}), "zip"),
    "JSON Lines": lambda project: project.snapshot(json_lines(SECRET), "jsonl"),
    "change": lambda project: project.change(SECRET),
    "change, with other content": lambda project: project.change({**SECRET, "content": "# Another\n"}),
    "two changes": lambda project: project.change({"op": "delete", "path": "secret.md"}, SECRET),
}


@pytest.mark.parametrize("leaves", LEAVES)
@pytest.mark.parametrize("returns", RETURNS)
def test_a_file_that_comes_back_without_a_list_has_the_one_that_it_left_with(
    project: Project, leaves: str, returns: str
) -> None:
    """Losing it would open the file to everybody who reads the session."""
    project.snapshot(json_lines({**SECRET, "acl": ["user:ann"]}, {"path": "open.md", "content": "# Open\n"}), "jsonl")
    LEAVES[leaves](project)
    project.change({"path": "other.md", "content": "# Other\n"})
    RETURNS[returns](project)
    files = project.sessions.files["docs"]
    assert files["secret.md"].acl == ("user:ann",)
    assert {entry.acl for path, entry in files.items() if path != "secret.md"} <= {None}


@pytest.mark.parametrize("leaves", LEAVES)
@pytest.mark.parametrize("acl", [None, ["group:dev"], []])
def test_what_an_upload_says_about_rights_counts_first_and_from_then_on(
    project: Project, leaves: str, acl: list[str] | None
) -> None:
    project.change({**SECRET, "acl": ["user:ann"]})
    LEAVES[leaves](project)
    project.change({**SECRET, "acl": acl})
    said = None if acl is None else tuple(acl)
    assert project.sessions.files["docs"]["secret.md"].acl == said
    LEAVES[leaves](project)
    project.snapshot({"secret.md": "# Secret\n"})
    assert project.sessions.files["docs"]["secret.md"].acl == said


def test_a_list_that_came_with_a_file_that_failed_counts_for_the_next_version(project: Project) -> None:
    broken = base64.b64encode(b"\xff\xfe\xfa").decode()
    report = project.change({"path": "secret.md", "content_b64": broken, "acl": ["user:ann"]})
    assert [file.acl for file in report.failed] == [("user:ann",)]
    report = project.snapshot({"secret.md": b"\xff\xfe\xfb"})
    assert [file.acl for file in report.failed] == [("user:ann",)]
    project.snapshot({"secret.md": "# Secret\n"})
    assert project.sessions.files["docs"]["secret.md"].acl == ("user:ann",)


@pytest.mark.parametrize("content", ["", "\x00\x01\x02"], ids=["empty", "binary"])
def test_a_file_that_is_opened_while_it_can_not_be_indexed_comes_back_open(project: Project, content: str) -> None:
    project.change({**SECRET, "acl": ["user:ann"]})
    project.change({"op": "delete", "path": "secret.md"})
    project.change({"path": "secret.md", "content": content, "acl": None})
    project.snapshot({"secret.md": "# Secret\n"})
    assert project.sessions.files["docs"]["secret.md"].acl is None


def test_a_list_is_opened_by_its_hash_alone(project: Project) -> None:
    project.change({**SECRET, "acl": ["user:ann"]})
    sha = project.sessions.files["docs"]["secret.md"].blob_sha
    project.change({"path": "secret.md", "content_hash": sha})
    assert project.sessions.files["docs"]["secret.md"].acl == ("user:ann",)
    opened = project.change({"path": "secret.md", "content_hash": sha, "acl": None})
    assert (project.sessions.files["docs"]["secret.md"].acl, opened.counters.cache_miss_files) == (None, 0)


@pytest.mark.parametrize("in_the_index_before", [False, True])
@pytest.mark.parametrize("now_in_the_index", [False, True])
def test_a_roll_back_opens_no_file(project: Project, in_the_index_before: bool, now_in_the_index: bool) -> None:
    """Rights are the session's, not an index's: they are no part of what is undone."""
    project.snapshot(
        {"secret.md": "# Secret\n", "open.md": "# Open\n"} if in_the_index_before else {"open.md": "# O\n"}
    )
    project.snapshot(json_lines({**SECRET, "acl": ["user:ann"]}), "jsonl", reindex=True)
    if not now_in_the_index:
        project.change({"op": "delete", "path": "secret.md"})
    project.roll_back()
    rights = {path: entry.acl for path, entry in project.sessions.files["docs"].items()}
    assert rights == ({"secret.md": ("user:ann",), "open.md": None} if in_the_index_before else {"open.md": None})
    project.snapshot({"secret.md": "# Secret\n"})
    assert project.sessions.files["docs"]["secret.md"].acl == ("user:ann",)
