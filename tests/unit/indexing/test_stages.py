from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from strata.errors import EmbedderRejected, EmbedderUnavailable, UnsafeEntry, UploadRejected
from strata.indexing import PIPELINE_VERSION, pipeline_version
from strata.indexing.new_index import Built
from strata.indexing.preamble import ChatPreambler
from strata.indexing.stages import IndexingStages
from strata.jobs.running import Progress
from strata.model.chat import ModelUsage, Prices
from strata.model.corpus import Layer, ReportedFile, blob_sha_of
from strata.model.jobs import Counters, Failure, Job, JobReport, Lease
from strata.ports.generation import Preambler
from strata.providers.hashed.embedder import HashedEmbedder
from strata.settings.model import IndexingSettings
from tests.support.factories import identity, job
from tests.support.fake_objects import FakeObjectStore
from tests.support.fakes import FakeBlobCache, FakeSessionStore
from tests.support.models import FakeChat
from tests.support.uploads import json_lines, tar_gz


class Line:
    """A session whose snapshots go through the stages, each object prepared by itself."""

    def __init__(self) -> None:
        self.cache, self.objects = FakeBlobCache(), FakeObjectStore()
        self.sessions = FakeSessionStore(self.cache)
        self.embedder = HashedEmbedder()
        self.told: list[Progress] = []
        self.seq = 0
        self.preambler: Callable[[], Preambler] | None = None
        self.built = Built(
            embedding_model=self.embedder.model_id,
            dimension=self.embedder.dimension,
            pipeline_version=PIPELINE_VERSION,
        )
        self.sessions.create(
            session_id="docs",
            identity=identity(),
            project_id="shop",
            embedding_model=self.built.embedding_model,
            dimension=self.built.dimension,
            pipeline_version=PIPELINE_VERSION,
        )

    def stages(self) -> IndexingStages:
        return IndexingStages(
            sessions=self.sessions,
            cache=self.cache,
            objects=self.objects,
            embedder=lambda: self.embedder,
            built=self.built,
            settings=IndexingSettings(prepare_workers=1),
            preambler=self.preambler,
            prices=Prices(input=10.0),
        )

    def accepted(self, body: bytes, ending: str = "tar.gz") -> tuple[Job, Lease]:
        self.seq += 1
        made = job(f"job-{self.seq:026}", session_id="docs")
        made = replace(made, seq=self.seq, object_key=f"uploads/docs/{made.job_id}.{ending}")
        self.objects.put(made.object_key, body, content_type="")
        expires_at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=1)
        return made, Lease(session_id="docs", owner="execution", fence=self.seq, expires_at=expires_at)

    def batches(self, made: Job) -> list[str]:
        packed = self.stages().plan(made, self.told.append)
        keys: list[str] = json.loads(self.objects.objects[packed.manifest_key])
        assert len(keys) == packed.batches
        return keys

    def snapshot(self, files: Mapping[str, bytes | str]) -> JobReport:
        made, lease = self.accepted(tar_gz(files))
        for key in self.batches(made):
            self.stages().prepare(made, key, self.told.append)
        return self.finish(made, lease)

    def finish(self, made: Job, lease: Lease) -> JobReport:
        index_id = self.stages().fill(made, lease, self.told.append)
        return self.stages().flip(made, lease, index_id, self.told.append)

    @property
    def paths(self) -> list[str]:
        return sorted(self.sessions.files["docs"])


FILES: dict[str, bytes | str] = {
    "README.md": "# Shop\n",
    "src/app.py": "def sell():\n    return 1\n",
    "empty.txt": "",
    "bad.md": b"\xff\xfe\xfa",
}


@pytest.fixture
def line() -> Line:
    return Line()


def test_the_stages_make_what_one_worker_would(line: Line) -> None:
    report = line.snapshot(FILES)
    assert line.paths == ["README.md", "src/app.py"]
    assert report.counters == Counters(indexed_files=2, cache_miss_files=2, skipped_files=1, failed_files=1)
    assert [file.path for file in report.skipped] == ["empty.txt"]
    assert [file.path for file in report.failed] == ["bad.md"]
    again = line.snapshot({"README.md": "# Shop\n", "new.md": "# New\n"})
    assert again.counters == Counters(indexed_files=2, cache_hit_files=1, cache_miss_files=1, deleted_files=1)
    assert (again.generation, line.paths) == (2, ["README.md", "new.md"])


def test_notes_and_rights_come_through_the_stages(line: Line) -> None:
    noted = {"path": "a.py", "content": "x = 1\ndef f(:\n", "acl": ["user:ann"]}
    failed = {"path": "b.md", "content_hash": "0" * 64, "acl": ["group:red"]}
    skipped = {"path": "c.md", "content": " \n", "acl": []}
    rules = {"path": "d/.gitignore", "content": "*.log\n", "acl": ["user:bob"]}
    ignored = {"path": "d/e.log", "content": "x\n"}
    made, lease = line.accepted(json_lines(noted, failed, skipped, rules, ignored), "jsonl")
    for key in line.batches(made):
        line.stages().prepare(made, key, line.told.append)
    report = line.finish(made, lease)
    assert [(note.path, note.line, note.acl) for note in report.notes] == [("a.py", 2, ("user:ann",))]
    assert report.note_count == 1
    assert [(file.path, file.acl) for file in (*report.failed, *report.skipped)] == [
        ("b.md", ("group:red",)), ("c.md", ()), ("d/e.log", None),
    ]  # fmt: skip
    assert [(file.named, file.named_acl) for file in report.skipped] == [(None, None), ("d/.gitignore", ("user:bob",))]


def test_an_archive_keeps_the_rights_that_it_has_no_place_for(line: Line) -> None:
    made, lease = line.accepted(json_lines({"path": "a.md", "content": "# A\n", "acl": ["user:ann"]}), "jsonl")
    for key in line.batches(made):
        line.stages().prepare(made, key, line.told.append)
    line.finish(made, lease)
    line.snapshot({"a.md": "# A, again\n", "b.md": "# B\n"})
    assert {path: entry.acl for path, entry in line.sessions.files["docs"].items()} == {
        "a.md": ("user:ann",), "b.md": None,
    }  # fmt: skip


def test_a_list_that_left_the_index_comes_back_through_the_stages(line: Line) -> None:
    secret = {"path": "secret.md", "content": "# Secret\n", "acl": ["user:ann"]}
    broken = {"path": "broken.md", "content_b64": "//76", "acl": ["user:bob"]}
    opened = {"path": "opened.md", "content": "# Opened\n", "acl": ["user:bob"]}
    for lines in ([secret, broken, opened], [{**opened, "acl": None}, {"path": "b.md", "content": "# B\n"}]):
        made, lease = line.accepted(json_lines(*lines), "jsonl")
        for key in line.batches(made):
            line.stages().prepare(made, key, line.told.append)
        line.finish(made, lease)
    assert line.sessions.files["docs"].keys() == {"opened.md", "b.md"}
    line.snapshot(dict.fromkeys(("secret.md", "broken.md", "opened.md", "b.md"), "# Here\n"))
    assert {path: entry.acl for path, entry in line.sessions.files["docs"].items()} == {
        "secret.md": ("user:ann",), "broken.md": ("user:bob",), "opened.md": None, "b.md": None,
    }  # fmt: skip


def test_files_are_packed_by_number_and_by_size(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.indexing.stages.PACKED_FILES", 2)
    monkeypatch.setattr("strata.indexing.stages.PACKED_BYTES", 10_000)
    files = {f"{n}.md": f"# {n}\n" for n in range(5)} | {"z.txt": "long " * 2_000}
    made, lease = line.accepted(tar_gz(files))
    keys = line.batches(made)
    assert [len(line.objects.objects[key].splitlines()) for key in keys] == [2, 2, 2]
    for key in reversed(keys):  # in any order, and twice
        line.stages().prepare(made, key, line.told.append)
        line.stages().prepare(made, key, line.told.append)
    assert line.finish(made, lease).counters.indexed_files == 6


def test_nothing_is_packed_that_the_cache_holds(line: Line) -> None:
    line.snapshot(FILES)
    made, lease = line.accepted(tar_gz({"README.md": "# Shop\n"}))
    assert line.batches(made) == []
    assert line.finish(made, lease).counters.cache_hit_files == 1


def test_a_file_sent_by_its_hash_is_packed_from_the_record_or_fails_alone(line: Line) -> None:
    line.snapshot(FILES)
    line.built = replace(line.built, pipeline_version="2")
    known = {"path": "README.md", "content_hash": blob_sha_of(b"# Shop\n")}
    unknown = {"path": "b.md", "content_hash": blob_sha_of(b"never seen\n")}
    made, lease = line.accepted(json_lines(known, unknown), "jsonl")
    for key in line.batches(made):
        line.stages().prepare(made, key, line.told.append)
    report = line.finish(made, lease)
    assert (line.paths, [file.path for file in report.failed]) == (["README.md"], ["b.md"])
    assert line.sessions.sessions["docs"].pipeline_version == "2"


@pytest.mark.parametrize(("error", "told"), [(EmbedderRejected(), True), (EmbedderUnavailable(), False)])
def test_what_ends_a_batch_for_good_is_left_for_whoever_ends_the_job(
    line: Line, monkeypatch: pytest.MonkeyPatch, error: Exception, told: bool
) -> None:
    def refuse(*_: object) -> None:
        raise error

    made, lease = line.accepted(tar_gz(FILES))
    (key,) = line.batches(made)
    monkeypatch.setattr(HashedEmbedder, "embed_documents", refuse)
    with pytest.raises(type(error)):
        line.stages().prepare(made, key, line.told.append)
    failure = line.stages().failure(made)
    assert (failure is not None and failure.code == "embedder_rejected") == told
    with pytest.raises(UploadRejected):
        line.finish(made, lease)
    monkeypatch.undo()
    line.stages().prepare(made, key, line.told.append)
    assert line.stages().failure(made) is None
    assert line.finish(made, lease).counters.indexed_files == 2


def test_what_ends_a_plan_for_good_is_left_with_the_file_that_it_is_about(line: Line) -> None:
    made, _ = line.accepted(json_lines({"path": "../out.md", "content": "x", "acl": ["user:ann"]}), "jsonl")
    with pytest.raises(UnsafeEntry) as refusal:
        line.stages().plan(made, line.told.append)
    about = ReportedFile(
        path="../out.md", reason="The upload holds '../out.md', which is not inside the project.", acl=("user:ann",)
    )
    assert line.stages().failure(made) == Failure("unsafe_entry", refusal.value.message, about)


def test_a_model_that_refuses_everything_is_quoted_to_the_readers_of_the_file(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: object, texts: list[str]) -> None:
        raise EmbedderRejected(f"It says: {texts[0]}")

    made, _ = line.accepted(json_lines({"path": "a.md", "content": "# Secret\n", "acl": ["user:ann"]}), "jsonl")
    (key,) = line.batches(made)
    monkeypatch.setattr(HashedEmbedder, "embed_documents", refuse)
    with pytest.raises(EmbedderRejected):
        line.stages().prepare(made, key, line.told.append)
    failure = line.stages().failure(made)
    assert failure is not None
    assert failure.about is not None
    assert (failure.about.path, failure.about.acl) == ("a.md", ("user:ann",))
    assert ("Secret" in failure.about.reason, "Secret" in failure.message) == (True, False)


def test_a_job_without_a_plan_has_said_nothing(line: Line) -> None:
    made, _ = line.accepted(tar_gz(FILES))
    assert line.stages().failure(made) is None


def test_preambles_are_written_while_preparing_and_counted_at_the_end(line: Line) -> None:
    chat = FakeChat("A note.")
    written = ChatPreambler(
        chat=chat, counter=line.embedder, layers=tuple(Layer), tokens=20, document_characters=500, parallel=2
    )
    line.preambler = lambda: written
    line.built = replace(line.built, pipeline_version=pipeline_version(written.version))
    report = line.snapshot(FILES)
    chunks = [embedded.chunk for path in line.paths for embedded in line.sessions.chunks["docs"][path]]
    assert all(chunk.preamble == "A note." for chunk in chunks)
    calls = len(chunks)
    assert report.usage == ModelUsage(
        calls=calls, input_tokens=100 * calls, output_tokens=10 * calls, cost=calls * 0.001
    )
    assert len(chat.prompts) == calls
