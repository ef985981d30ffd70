from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from strata.errors import (
    CorruptArchive,
    EmbeddingModelMismatch,
    LockLost,
    NoEarlierIndex,
    SessionNotFound,
    StaleFence,
    UnsafeEntry,
    UploadTooLarge,
)
from strata.indexing import PIPELINE_VERSION
from strata.indexing.commit import MAX_REPORTED_FILES
from strata.indexing.pipeline import Indexer
from strata.jobs.running import Progress, ReportProgress
from strata.model.corpus import LinkKind, ReportedFile, Vectors, blob_sha_of
from strata.model.jobs import Counters, Job, JobKind, JobReport, Lease
from strata.providers.hashed.embedder import HashedEmbedder
from strata.settings.model import IndexingSettings, UploadLimits
from tests.support.factories import identity
from tests.support.fakes import FakeBlobCache, FakeSessionStore
from tests.support.job_fakes import FakeObjectStore, job
from tests.support.uploads import json_lines, tar_gz, zipped

Files = Mapping[str, bytes | str]


class CountingEmbedder(HashedEmbedder):
    """The hashed embedder; `texts` are all that it was given."""

    texts: list[str]

    def __init__(self) -> None:
        object.__setattr__(self, "texts", [])

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.texts.extend(texts)
        return super().embed_documents(texts)


@dataclass
class Project:
    """A session whose jobs run one after the other, each a new one."""

    embedder: CountingEmbedder = field(default_factory=CountingEmbedder)
    cache: FakeBlobCache = field(default_factory=FakeBlobCache)
    objects: FakeObjectStore = field(default_factory=FakeObjectStore)
    settings: IndexingSettings = field(default_factory=lambda: IndexingSettings(prepare_workers=1))
    session_id: str = "docs"
    told: list[Progress] = field(default_factory=list)
    seq: int = 0

    def __post_init__(self) -> None:
        self.sessions = FakeSessionStore(self.cache)
        self.create(self.session_id)

    def create(self, session_id: str, **fields: Any) -> None:
        values: dict[str, Any] = {
            "identity": identity(),
            "project_id": "shop",
            "embedding_model": self.embedder.model_id,
            "dimension": self.embedder.dimension,
            "pipeline_version": PIPELINE_VERSION,
        }
        self.sessions.create(session_id=session_id, **(values | fields))

    def indexer(self) -> Indexer:
        return Indexer(
            sessions=self.sessions,
            cache=self.cache,
            objects=self.objects,
            embedder=self.embedder,
            settings=self.settings,
        )

    def accepted(self, body: bytes, kind: JobKind) -> tuple[Job, Lease]:
        self.seq += 1
        made = replace(job(f"job-{self.seq:026}", session_id=self.session_id, kind=kind), seq=self.seq)
        self.objects.put(made.object_key, body, content_type="")
        expires_at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=1)
        return made, Lease(session_id=self.session_id, owner="worker", fence=self.seq, expires_at=expires_at)

    def snapshot(
        self,
        files: Files | bytes,
        upload_format: str = "tar.gz",
        progress: ReportProgress | None = None,
        *,
        reindex: bool = False,
    ) -> JobReport:
        body = files if isinstance(files, bytes) else tar_gz(files)
        made, lease = self.accepted(body, JobKind.SNAPSHOT)
        made = replace(made, reindex=reindex)
        return self.indexer().index_snapshot(made, lease, upload_format, progress or self.told.append)

    def change(self, *lines: Mapping[str, Any]) -> JobReport:
        made, lease = self.accepted(json_lines(*lines), JobKind.CHANGES)
        return self.indexer().index_changes(made, lease, self.told.append)

    def roll_back(self) -> JobReport:
        made, lease = self.accepted(b"", JobKind.ROLLBACK)
        return self.indexer().roll_back(made, lease, self.told.append)

    @property
    def paths(self) -> list[str]:
        return sorted(self.sessions.files[self.session_id])

    def text_of(self, path: str) -> str:
        return "\n".join(embedded.chunk.content for embedded in self.sessions.chunks[self.session_id][path])


@pytest.fixture
def project() -> Project:
    return Project()


FILES: Files = {
    "README.md": "# Shop\n\nSells things.\n",
    "src/app.py": "def sell():\n    return 1\n",
    "a.txt": "plain\n",
}


def reasons(files: tuple[ReportedFile, ...]) -> dict[str, str]:
    return {file.path: file.reason for file in files}


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


# --- what parsers say ---------------------------------------------------------------------------------------------

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


# --- snapshots -----------------------------------------------------------------------------------------------------


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


# --- what is skipped, what fails -----------------------------------------------------------------------------------


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


def test_reports_are_capped_and_counters_are_not(project: Project) -> None:
    report = project.snapshot({f"{number:04}.md": "" for number in range(500)})
    assert report.counters.skipped_files == 500
    assert 0 < len(report.skipped) < 500


# --- changes -------------------------------------------------------------------------------------------------------


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


# --- refusals: nothing is written ----------------------------------------------------------------------------------


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


OTHERS = [("embedding_model", "other"), ("dimension", 8), ("pipeline_version", "0")]


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


# --- progress ------------------------------------------------------------------------------------------------------


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


# --- new indexes ---------------------------------------------------------------------------------------------------


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
