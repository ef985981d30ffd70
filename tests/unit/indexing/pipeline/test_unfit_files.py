"""Files that are skipped or fail cost nobody else anything, and leave the index."""

from __future__ import annotations

from strata.model.corpus import blob_sha_of
from strata.model.jobs import Counters
from strata.settings.model import IndexingSettings, UploadLimits
from tests.support.factories import identity
from tests.support.indexed_project import Project, reasons
from tests.support.uploads import json_lines


def test_skipped_files_have_a_reason_and_leave_the_index(project: Project) -> None:
    project.settings = IndexingSettings(limits=UploadLimits(max_file_bytes=1_000))
    project.snapshot({"grows.md": "# Small\n", "ok.md": "# OK\n"})
    report = project.snapshot(
        {
            "ok.md": "# OK\n",
            "grows.md": "x" * 1_001,
            "empty.md": " \n",
            "logo.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            ".env": "TOKEN=1\n",
            "package-lock.json": "{}",
            "node_modules/x.js": "x",
            ".gitignore": "*.log\nbuild/\n",
            "a.log": "log\n",
            "build/out.md": "# Out\n",
            "docs/.strataignore": "draft.md\n",
            "docs/draft.md": "# Draft\n",
        }
    )
    assert project.paths == [".gitignore", "docs/.strataignore", "ok.md"]
    assert reasons(report.skipped) == {
        ".env": "It may hold secrets.",
        "a.log": "It is ignored by .gitignore.",
        "build/out.md": "It is ignored by .gitignore.",
        "docs/draft.md": "It is ignored by docs/.strataignore.",
        "empty.md": "It is empty.",
        "grows.md": "It is larger than 1,000 bytes.",
        "logo.png": "It is a binary file.",
        "node_modules/x.js": "It is an installed package.",
        "package-lock.json": "It is a lock file, written by a tool.",
    }
    assert report.counters == Counters(
        indexed_files=2, cache_hit_files=1, cache_miss_files=2, skipped_files=9, deleted_files=1
    )


def test_an_ignore_file_counts_wherever_it_stands_in_the_upload(project: Project) -> None:
    project.snapshot({"a.log": "log\n", "ok.md": "# OK\n", ".gitignore": "*.log\n"})
    assert project.paths == [".gitignore", "ok.md"]


def test_an_ignore_file_in_a_denied_folder_says_nothing(project: Project) -> None:
    project.snapshot({"node_modules/.gitignore": "*\n", "node_modules/x.md": "x", "ok.md": "# OK\n"})
    assert project.paths == ["ok.md"]


def test_a_nul_and_another_encoding_do_not_cost_the_others(project: Project) -> None:
    files: dict[str, bytes | str] = {f"{number}.md": f"# {number}\n" for number in range(19)}
    report = project.snapshot(
        {**files, "nul.md": b"# Doc\nboth o\x00er cloud credits\n", "cp1251.md": "привет".encode("cp1251")}
    )
    assert report.counters == Counters(indexed_files=20, failed_files=1, cache_miss_files=20)
    assert reasons(report.failed) == {"cp1251.md": "It is not UTF-8 text (line 1): save it as UTF-8."}
    assert "both oer cloud credits" in project.text_of("nul.md")


def test_a_file_that_fails_loses_its_older_version(project: Project) -> None:
    project.snapshot({"a.md": "# A\n", "b.md": "# B\n"})
    report = project.snapshot({"a.md": "привет".encode("cp1251"), "b.md": "# B\n"})
    assert project.paths == ["b.md"]
    assert report.counters == Counters(failed_files=1, cache_hit_files=1)


def test_content_that_is_not_its_hash_fails_alone(project: Project) -> None:
    report = project.snapshot(
        json_lines(
            {"path": "a.md", "content": "# A\n", "content_hash": "0" * 64},
            {"path": "b.md", "content": "# B\n", "content_hash": blob_sha_of(b"# B\n")},
            {"path": "c.md", "content": "x" * 3, "content_hash": f"sha256:{blob_sha_of(b'xxx').upper()}"},
        ),
        "jsonl",
    )
    assert project.paths == ["b.md", "c.md"]
    assert reasons(report.failed) == {"a.md": "Its content does not have the given content_hash."}


def test_a_hash_stands_for_content_that_is_on_record(project: Project) -> None:
    project.snapshot({"a.md": "# A\n", "b.md": "# B\n"})
    project.snapshot({"b.md": "# B\n"})
    report = project.snapshot(
        json_lines(
            {"path": "a.md", "content_hash": blob_sha_of(b"# A\n")},
            {"path": "b.md", "content_hash": blob_sha_of(b"# B\n")},
            {"path": "moved/a.md", "content_hash": blob_sha_of(b"# A\n")},
            {"path": "unknown.md", "content_hash": "0" * 64},
        ),
        "jsonl",
    )
    assert project.paths == ["a.md", "b.md"]
    assert report.counters == Counters(indexed_files=1, cache_hit_files=2, failed_files=2)
    assert set(reasons(report.failed)) == {"moved/a.md", "unknown.md"}
    assert project.sessions.files["docs"]["b.md"].size_bytes == 4


def test_another_tenants_record_is_no_record(project: Project) -> None:
    project.snapshot({"a.md": "# Secret\n"})
    project.session_id = "theirs"
    project.create("theirs", identity=identity(tenant="rival"))
    report = project.snapshot(json_lines({"path": "a.md", "content_hash": blob_sha_of(b"# Secret\n")}), "jsonl")
    assert (project.paths, report.counters) == ([], Counters(failed_files=1))
