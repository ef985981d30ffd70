"""What a job says about single files: notes of parsers, what was skipped, what failed."""

from __future__ import annotations

import base64
import json
from typing import Any

from strata.indexing.commit import MAX_REPORTED_FILES
from strata.model.corpus import ReportedFile
from strata.model.jobs import JobReport
from tests.support.indexed_project import Files, Project
from tests.support.uploads import json_lines

NOTED: Files = {
    "a.md": "---\ntitle: Part 1: Intro\n---\n# Body\n",
    "b.py": "x = 1\ndef f(:\n",
    "c.md": "# Sound\n",
}


def noted(report: JobReport) -> list[tuple[str, int | None]]:
    return [(note.path, note.line) for note in report.notes]


def test_every_job_reports_the_notes_of_its_files_wherever_they_come_from(project: Project) -> None:
    expected = [("a.md", 2), ("b.py", 2)]
    assert noted(project.snapshot(NOTED)) == expected
    assert noted(project.snapshot(NOTED)) == expected  # nothing is prepared, nothing is written
    assert noted(project.snapshot(NOTED, reindex=True)) == expected
    project.create("copy")
    project.session_id = "copy"
    copied = project.snapshot(NOTED)
    assert (noted(copied), copied.counters.cache_hit_files, copied.note_count) == (expected, 3, 2)
    one = project.change({"op": "upsert", "path": "b.py", "content": "def g(:\n"}, {"op": "delete", "path": "a.md"})
    assert noted(one) == [("b.py", 1)]
    assert noted(project.change({"op": "upsert", "path": "b.py", "content": "x = 1\n"})) == []


def test_a_file_that_turns_out_to_hold_no_text_is_noted(project: Project) -> None:
    """Its bytes are not blank; what is read from them is."""
    pictures = {"cell_type": "code", "source": "", "outputs": [{"data": {"image/png": "iVBOR" * 100}}]}
    report = project.snapshot({
        "pictures.ipynb": json.dumps({"cells": [pictures]}),
        "no_cells.ipynb": json.dumps({"cells": []}),
        "mark.md": "\ufeff\n",
        "pkg/__init__.py": "",
        "sound.md": "# Sound\n",
    })  # fmt: skip
    assert [(note.path, note.reason) for note in report.notes] == [
        (path, "It holds no text: nothing of it can be found.")
        for path in ("mark.md", "no_cells.ipynb", "pictures.ipynb")
    ]
    assert report.counters.indexed_files == 5


def test_notes_are_bounded_and_their_number_is_told(project: Project) -> None:
    report = project.snapshot({f"{n:03}.py": "def f(:\n" for n in range(MAX_REPORTED_FILES + 5)})
    assert noted(report) == [(f"{n:03}.py", 1) for n in range(MAX_REPORTED_FILES)]
    assert report.note_count == MAX_REPORTED_FILES + 5


def test_what_is_said_about_a_file_carries_its_acl(project: Project) -> None:
    lines: list[dict[str, Any]] = [
        {"path": "a.md", "content": NOTED["a.md"], "acl": ["user:ann"]},
        {"path": "b.bin", "content_b64": base64.b64encode(bytes(range(200))).decode(), "acl": []},
        {"path": "c.md", "content_b64": base64.b64encode(b"\xff\xfe\xfa").decode(), "acl": ["group:red"]},
        {"path": "d.md", "content_hash": "0" * 64, "acl": ["group:blue"]},
        {"path": "e.py", "content": "def f(:\n"},
    ]
    report = project.snapshot(json_lines(*lines), "jsonl")
    acls = {file.path: file.acl for file in (*report.skipped, *report.failed, *report.notes)}
    assert acls == {
        "a.md": ("user:ann",), "b.bin": (), "c.md": ("group:red",), "d.md": ("group:blue",), "e.py": None,
    }  # fmt: skip


def test_what_names_an_ignore_file_carries_the_acl_of_that_too(project: Project) -> None:
    rules = {"path": "hr/.gitignore", "content": "*.log\n", "acl": ["user:ann"]}
    log = {"path": "hr/a.log", "content": "x\n", "acl": ["user:bob"]}
    (skipped,) = project.snapshot(json_lines(rules, log), "jsonl").skipped
    assert skipped == ReportedFile(
        path="hr/a.log", reason="It is ignored by hr/.gitignore.", acl=("user:bob",),
        named="hr/.gitignore", named_acl=("user:ann",),
    )  # fmt: skip
    assert ".gitignore" not in skipped.nameless().reason


def test_reports_are_capped_and_counters_are_not(project: Project) -> None:
    report = project.snapshot({f"{number:04}.md": "" for number in range(500)})
    assert report.counters.skipped_files == 500
    assert 0 < len(report.skipped) < 500
