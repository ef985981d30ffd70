"""After a snapshot the index equals exactly its files, and nothing is done twice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from strata.model.corpus import LinkKind, blob_sha_of
from strata.model.jobs import Counters
from tests.support.indexed_project import FILES, Project
from tests.support.uploads import json_lines, zipped


def test_an_empty_package_is_in_the_index_without_a_chunk(project: Project) -> None:
    report = project.snapshot({"pkg/__init__.py": "", "pkg/mod.py": "x = 1\n", "pkg/py.typed": ""})
    assert (report.counters.indexed_files, report.counters.skipped_files) == (2, 1)
    assert project.paths == ["pkg/__init__.py", "pkg/mod.py"]
    assert project.sessions.chunks["docs"]["pkg/__init__.py"] == ()
    links = next(blob.links for blob in project.cache.blobs.values() if blob.key.path == "pkg/__init__.py")
    assert {(link.kind, link.target) for link in links} == {
        (LinkKind.DEFINES, "pkg"), (LinkKind.DEFINES, "pkg/__init__.py"),
    }  # fmt: skip
    assert project.snapshot({"pkg/__init__.py": "", "pkg/mod.py": "x = 1\n"}).counters.cache_hit_files == 2


def test_a_snapshot_becomes_the_index(project: Project) -> None:
    report = project.snapshot(FILES)
    assert project.paths == sorted(FILES)
    assert report.counters == Counters(indexed_files=3, cache_miss_files=3)
    assert (report.generation, report.chunks) == (1, 7)
    assert "def sell()" in project.text_of("src/app.py")


@pytest.mark.parametrize("upload_format", ["zip", "jsonl"])
def test_every_format_gives_the_same_index(project: Project, upload_format: str) -> None:
    body = (
        zipped(FILES)
        if upload_format == "zip"
        else json_lines(*({"path": path, "content": content} for path, content in FILES.items()))
    )
    project.snapshot(body, upload_format)
    assert {path: entry.blob_sha for path, entry in project.sessions.files["docs"].items()} == {
        path: blob_sha_of(str(content).encode()) for path, content in FILES.items()
    }


def test_the_same_snapshot_again_embeds_nothing(project: Project) -> None:
    project.snapshot(FILES)
    embedded = len(project.embedder.texts)
    report = project.snapshot(FILES)
    assert report.counters == Counters(cache_hit_files=3)
    assert len(project.embedder.texts) == embedded
    assert report.generation == 2


def test_only_what_differs_is_worked_on(project: Project) -> None:
    project.snapshot(FILES)
    before = set(project.embedder.texts)
    report = project.snapshot({"README.md": FILES["README.md"], "a.txt": "other\n", "new.md": "# New\n"})
    assert project.paths == ["README.md", "a.txt", "new.md"]
    assert report.counters == Counters(indexed_files=2, cache_hit_files=1, cache_miss_files=2, deleted_files=1)
    assert all("other" in text or "New" in text for text in set(project.embedder.texts) - before)


def test_a_second_session_of_the_repository_finds_the_cache(project: Project) -> None:
    project.snapshot(FILES)
    embedded = len(project.embedder.texts)
    project.session_id = "other"
    project.create("other")
    report = project.snapshot(FILES)
    assert report.counters == Counters(indexed_files=3, cache_hit_files=3)
    assert len(project.embedder.texts) == embedded


def test_a_file_that_moves_is_prepared_under_its_new_path(project: Project) -> None:
    project.snapshot({"a.md": "# A\n"})
    report = project.snapshot({"b/a.md": "# A\n"})
    assert project.paths == ["b/a.md"]
    assert report.counters == Counters(indexed_files=1, cache_miss_files=1, deleted_files=1)
    assert any(text.startswith("b/a.md") for text in project.embedder.texts)


def test_files_with_one_content_are_kept_apart(project: Project) -> None:
    project.snapshot({"pkg1/LICENSE.md": "MIT\n", "pkg2/LICENSE.md": "MIT\n"})
    project.change({"path": "pkg1/LICENSE.md", "op": "delete"})
    assert project.paths == ["pkg2/LICENSE.md"]
    (embedded, *_) = project.sessions.chunks["docs"]["pkg2/LICENSE.md"]
    assert embedded.chunk.path == "pkg2/LICENSE.md"


def test_rights_alone_are_no_reason_to_embed(project: Project) -> None:
    line = {"path": "a.md", "content": "# A\n"}
    project.snapshot(json_lines(line), "jsonl")
    embedded = len(project.embedder.texts)
    report = project.snapshot(
        json_lines({**line, "acl": ["user:bob"], "last_modified": "2026-01-01T00:00:00Z"}), "jsonl"
    )
    entry = project.sessions.files["docs"]["a.md"]
    assert (entry.acl, entry.last_modified) == (("user:bob",), datetime(2026, 1, 1, tzinfo=UTC))
    assert report.counters == Counters(cache_hit_files=1)
    assert len(project.embedder.texts) == embedded


def test_of_a_path_that_comes_twice_the_last_counts(project: Project) -> None:
    body = json_lines({"path": "a.md", "content": "# Old\n"}, {"path": "./a.md", "content": "# New\n"})
    report = project.snapshot(body, "jsonl")
    assert report.counters == Counters(indexed_files=1, cache_miss_files=1)
    assert "New" in project.text_of("a.md")
    assert not any("Old" in text for text in project.embedder.texts)


@pytest.mark.parametrize(
    ("first", "last", "paths"),
    [
        pytest.param("# A\n", "", [], id="the last one is empty"),
        pytest.param("", "# A\n", ["a.md"], id="the first one was empty"),
    ],
)
def test_the_last_of_a_path_decides_also_whether_it_is_skipped(
    project: Project, first: str, last: str, paths: list[str]
) -> None:
    report = project.snapshot(
        json_lines({"path": "a.md", "content": first}, {"path": "a.md", "content": last}), "jsonl"
    )
    assert project.paths == paths
    assert report.counters.skipped_files == 1 - len(paths)


def test_an_empty_snapshot_empties_the_index(project: Project) -> None:
    project.snapshot(FILES)
    report = project.snapshot({})
    assert project.paths == []
    assert report.counters == Counters(deleted_files=3)
