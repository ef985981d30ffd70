"""The pipeline on Postgres: what a project's files become, as a reader finds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from strata.indexing import PIPELINE_VERSION
from strata.indexing.pipeline import Indexer
from strata.model.asking import Candidate, Filter, Question
from strata.model.corpus import Layer
from strata.model.jobs import Counters, JobKind, JobReport, Lease
from strata.providers.hashed.embedder import HashedEmbedder
from strata.retrieval.retrieve import Retriever
from strata.settings.model import IndexingSettings
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.search import PostgresSearch
from strata.storage.postgres.sessions import PostgresSessionStore
from tests.support.factories import identity, job
from tests.support.fake_objects import FakeObjectStore
from tests.support.index_statistics import assert_rows_agree
from tests.support.postgres import TestDatabase
from tests.support.uploads import json_lines, tar_gz


class Project:
    """One session on a real database."""

    def __init__(self, database: TestDatabase) -> None:
        self.indexing, self.querying = Database(database.index_url), Database(database.query_url)
        self.embedder, self.objects, self.seq = HashedEmbedder(), FakeObjectStore(), 0
        self.settings = IndexingSettings()
        self.sessions = PostgresSessionStore(self.indexing)
        self.search = PostgresSearch(self.querying)
        self.sessions.create(
            session_id="docs",
            identity=identity(),
            project_id="shop",
            embedding_model=self.embedder.model_id,
            dimension=self.embedder.dimension,
            pipeline_version=PIPELINE_VERSION,
        )

    def close(self) -> None:
        self.indexing.close()
        self.querying.close()

    def snapshot(self, files: Mapping[str, bytes | str]) -> JobReport:
        return self._run(tar_gz(files), JobKind.SNAPSHOT)

    def change(self, *lines: Mapping[str, Any]) -> JobReport:
        return self._run(json_lines(*lines), JobKind.CHANGES)

    def _run(self, body: bytes, kind: JobKind) -> JobReport:
        self.seq += 1
        accepted = replace(job(f"job-{self.seq:026}", kind=kind), seq=self.seq)
        self.objects.put(accepted.object_key, body, content_type="")
        expires_at = datetime.now(UTC) + timedelta(minutes=1)
        lease = Lease(session_id="docs", owner="worker", fence=self.seq, expires_at=expires_at)
        indexer = Indexer(
            sessions=self.sessions,
            cache=PostgresBlobCache(self.indexing),
            objects=self.objects,
            embedder=self.embedder,
            settings=self.settings,
        )
        if kind is JobKind.CHANGES:
            return indexer.index_changes(accepted, lease, lambda progress: None)
        return indexer.index_snapshot(accepted, lease, "tar.gz", lambda progress: None)

    def found(self, text: str, *layers: Layer, limit: int = 10) -> tuple[Candidate, ...]:
        question = Question(
            text=text, session_id="docs", identity=identity(), filter=Filter(layers=layers), limit=limit
        )
        return Retriever(search=self.search, embedder=self.embedder, depth=50).retrieve(question).candidates


def by_words(rows: tuple[Candidate, ...]) -> Candidate:
    """The first row of the lexical list: the test embedder's vectors know nothing of rare words."""
    return next(row for row in rows if row.lexical_rank == 1)


@pytest.fixture
def project(postgres: TestDatabase) -> Iterator[Project]:
    project = Project(postgres)
    yield project
    project.close()


def test_two_sections_alike_in_two_files_are_four_rows(project: Project) -> None:
    content = "## Usage\nRun the zebra command.\n\n## Usage\nRun the zebra command.\n"
    project.snapshot({"a.md": content, "b.md": content})
    rows = project.found("zebra command", Layer.D3_SECTION_INDEX)
    assert {(row.path, row.span.start, row.span.end) for row in rows} == {
        (path, start, start + 1) for path in ("a.md", "b.md") for start in (1, 4)
    }
    assert len({row.chunk_id for row in rows}) == 4


def test_a_row_of_a_long_table_is_found_with_its_header(project: Project) -> None:
    rows = "".join(f"| E-{n} | meaning number {n} | fix number {n} |\n" for n in range(400))
    project.snapshot({"codes.md": f"# Codes\n\n| code | meaning | fix |\n|---|---|---|\n{rows}"})
    best = by_words(project.found("what does E-317 mean", Layer.D3_SECTION_INDEX))
    assert "| E-317 | meaning number 317 | fix number 317 |" in best.content
    assert best.metadata["table_header"] == "| code | meaning | fix |"


def test_constants_outside_functions_are_found(project: Project) -> None:
    project.snapshot(
        {
            "conf.py": 'TIMEOUT_S = 37\n\nif __name__ == "__main__":\n    print(TIMEOUT_S)\n',
            "other.py": "def work():\n    return 1\n",
        }
    )
    assert project.found("TIMEOUT_S 37")[0].path == "conf.py"


@pytest.mark.slow
def test_any_word_of_a_huge_file_is_found(project: Project) -> None:
    report = project.snapshot({"ids.md": " ".join(f"id{n:06x}" for n in range(200_000)), "ok.md": "# OK\n"})
    assert report.counters == Counters(indexed_files=2, cache_miss_files=2)
    best = by_words(project.found("id00ffff"))
    assert (best.path, "id00ffff" in best.content.split()) == ("ids.md", True)


def test_a_file_that_does_not_parse_is_found_by_its_source(project: Project) -> None:
    report = project.snapshot({"old.py": 'print "hello zebra"\ndef ok():\n    return 1\n', "new.py": "x = 1\n"})
    assert report.counters == Counters(indexed_files=2, cache_miss_files=2)
    rows = project.found("zebra")
    assert {row.layer for row in rows if row.path == "old.py"} == {Layer.C0_SOURCE_CHUNKS}


def test_a_deleted_file_and_old_text_are_never_found_again(project: Project) -> None:
    project.snapshot({"a.md": "# A\n\nThe zebra sleeps.\n", "b.md": "# B\n\nThe lion sleeps.\n"})
    project.change(
        {"path": "a.md", "op": "delete"}, {"path": "b.md", "op": "upsert", "content": "# B\n\nThe tiger wakes.\n"}
    )
    rows = project.found("zebra lion tiger", limit=50)
    assert {row.path for row in rows} == {"b.md"}
    assert all("lion" not in row.content for row in rows)
    assert "tiger" in rows[0].content


def test_a_file_of_250_sections_keeps_250_rows(project: Project) -> None:
    """Through a repetition and a change of one section."""
    sections = [f"## Section {n}\n\nBody number {n}.\n\n" for n in range(250)]
    content = "".join(sections)
    counters = []
    for version in (content, content, content.replace("Body number 7.", "Another body.")):
        counters.append(project.snapshot({"a.md": version}).counters)
        assert len(project.found("section body", Layer.D3_SECTION_INDEX, limit=300)) == 250
    assert counters == [
        Counters(indexed_files=1, cache_miss_files=1),
        Counters(cache_hit_files=1),
        Counters(indexed_files=1, cache_miss_files=1),
    ]


def test_quotes_stand_in_the_lines_that_a_row_names(project: Project) -> None:
    """The source that readers get counts its lines as the spans do, whatever the file's line ends and marks."""
    text = "# Заголовок\n\nПервый абзац 🤣.\n\n## Second\n\n- zebra one\n- zebra two\n"
    project.snapshot({"a.md": "\ufeff" + text.replace("\n", "\r\n"), "b.md": text, "c.md": text.replace("\n", "\r")})
    rows = project.found("zebra", Layer.D3_SECTION_INDEX)
    assert {row.path for row in rows} == {"a.md", "b.md", "c.md"}
    sources = project.search.sources("docs", identity(), [row.chunk_id for row in rows])
    for row in rows:
        lines = sources[row.chunk_id].split("\n")
        assert "\n".join(lines[row.span.start - 1 : row.span.end]) == row.content


def _rows(postgres: TestDatabase) -> set[tuple[Any, ...]]:
    """The live index as its readers may find it, whatever the numbers of its rows."""
    statement = """
        SELECT c.path, c.layer, c.ordinal, c.content, c.span_start, c.span_end, v.embedding::text,
               ARRAY(SELECT d.term FROM unnest(t.term_keys) AS key
                     JOIN rag_terms AS d ON d.term_id = (key & 4294967295) ORDER BY d.term COLLATE "C")::text,
               (SELECT round(sum(w)::numeric, 3) FROM unnest(string_to_array(
                    regexp_replace(split_part(t.weights::text, '/', 1), '[{}]|[0-9]+:', '', 'g'), ',')::float8[]) AS w)
        FROM rag_sessions AS s JOIN rag_chunks AS c ON c.index_id = s.active_index_id
        JOIN rag_chunk_terms AS t USING (index_id, chunk_id) LEFT JOIN rag_chunk_vectors AS v USING (index_id, chunk_id)
    """
    with psycopg.connect(postgres.owner_url) as connection:
        return set(connection.execute(statement).fetchall())


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(IndexingSettings(prepare_workers=3), id="prepared in three processes"),
        pytest.param(IndexingSettings(prepare_workers=1, new_index_files=1), id="in a new index"),
        pytest.param(IndexingSettings(prepare_workers=2, new_index_files=1), id="both"),
    ],
)
def test_every_way_gives_the_same_rows(
    postgres: TestDatabase, settings: IndexingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, bytes | str] = {
        f"src/m{n}.py": f'"""Module {n}."""\n\n\ndef f{n}(x):\n    return x + {n}\n' for n in range(150)
    }
    files |= {f"docs/p{n}.md": f"# Page {n}\n\nZebra {n} runs.\n" for n in range(150)} | {"bad.md": b"\xff\xfe\xfa"}
    project = Project(postgres)
    project.settings = IndexingSettings(prepare_workers=1)
    with monkeypatch.context() as in_place:
        in_place.setattr("strata.indexing.pipeline.FIRST_FILES", len(files) + 1)
        before = project.snapshot(files)
    expected = _rows(postgres)
    with psycopg.connect(postgres.owner_url) as connection:
        connection.execute("DELETE FROM rag_chunk_cache")
        connection.execute("DELETE FROM rag_blob_cache")
    project.snapshot({"one.md": "# One\n"})
    project.settings = settings
    report = project.snapshot(files)
    project.close()
    assert report.counters == replace(before.counters, deleted_files=1)
    assert [file.path for file in report.failed] == ["bad.md"]
    assert _rows(postgres) == expected
    assert_rows_agree(postgres.owner_url)
