"""The ladder on the real stores: a small judged set is indexed, asked at each step and scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata.errors import ConfigurationError
from strata.providers.hashed.embedder import HashedEmbedder
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.search import PostgresSearch
from strata.storage.postgres.sessions import PostgresSessionStore
from strata_eval.ladder import STEPS, Bench, index_set, read_any_set, run_set
from strata_eval.learning import SIGNED, Pack, learn
from strata_eval.memory import MemorySearch
from strata_eval.plotting import ladder_svg
from strata_eval.running import set_names, table_rows
from strata_eval.training import own_chunks, read_courses, train
from strata_eval.vector_cache import CachedEmbedder, VectorCache
from tests.support.postgres import TestDatabase

FILES = {
    "lock.py": "def acquire(owner):\n    return table.add(owner)\n\n\ndef release(owner):\n    table.remove(owner)\n",
    "upload.py": "def read_archive(stream):\n    for entry in stream:\n        yield entry\n",
    "guide.md": "# Guide\n\nA snapshot is uploaded as an archive.\n\n## Locks\n\nOne worker holds the lock.\n",
}
QUERIES = [
    ("q1", "which function removes the owner of the lock", "lock.py", "release", 5, 6),
    ("q2", "read every entry of an archive stream", "upload.py", "read_archive", 1, 3),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "sets" / "small"
    folder.mkdir(parents=True)
    rows = [{"path": path, "title": path, "text": text, "lang": "en"} for path, text in FILES.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({"id": query, "text": text}) + "\n" for query, text, *_ in QUERIES)
    )
    lines = [f"{query}\t{path}\t1\t{symbol}\t{start}\t{end}" for query, _, path, symbol, start, end in QUERIES]
    (folder / "qrels.tsv").write_text(
        "query_id\tpath\trelevance\tsymbol\tstart_line\tend_line\n" + "\n".join(lines) + "\n"
    )
    return folder.parent


@pytest.fixture
def embedder(tmp_path: Path) -> CachedEmbedder:
    return CachedEmbedder(embedder=HashedEmbedder(), cache=VectorCache(tmp_path / "vectors.sqlite"), fingerprint="f")


def test_a_run_reports_every_step_with_its_verdict(
    postgres: TestDatabase, data: Path, embedder: CachedEmbedder
) -> None:
    index, query = Database(postgres.index_url), Database(postgres.query_url)
    report = run_set(
        data,
        "small",
        embedder=embedder,
        steps=list(STEPS),
        sessions=PostgresSessionStore(index),
        cache=PostgresBlobCache(index),
        search=PostgresSearch(query),
    )
    index.close()
    query.close()
    assert (report["set"], report["embedder"], report["queries"]) == ("small", "hashed-256", 2)
    assert [step["name"] for step in report["steps"]] == list(STEPS)
    assert {step["verdict"] for step in report["steps"]} <= {"keep", "drop"}
    assert report["steps"][0]["difference"] is None
    for step in report["steps"]:
        assert set(step["latency_ms"]) == {"p50", "p95"}
        assert {"hit@1", "hit@5", "hit@10", "mrr@10", "ndcg@10", "precision@5", "symbol_hit@10"} <= set(step["metrics"])
        assert step["metrics"]["hit@10"] == 1.0  # three files
    assert report["final"] == report["steps"][-1]["metrics"]
    assert set(report["arms"]) == {"dense", "bm25"}
    columns, rows = table_rows([report])
    assert all(len(row) == len(columns) for row in rows)
    assert ladder_svg([report]).count("<title>small") == len(STEPS)


def test_memory_and_postgres_find_the_same(postgres: TestDatabase, data: Path, embedder: CachedEmbedder) -> None:
    index, query = Database(postgres.index_url), Database(postgres.query_url)
    judged = read_any_set(data, "small")
    index_set(judged, data, embedder=embedder, sessions=PostgresSessionStore(index), cache=PostgresBlobCache(index))
    real = Bench(search=PostgresSearch(query), embedder=embedder, session_id="small")
    chunks = sorted(real.rows("owner archive lock guide", dense=True, lexical=True), key=lambda row: row.chunk_id)
    cut = own_chunks(judged, embedder)
    assert len(chunks) == len(cut)
    memory = MemorySearch(
        cut, embedder.embed_documents([chunk.embedded_text for chunk in cut]), embedding_model="hashed-256"
    )
    asked = Bench(search=memory, embedder=embedder, session_id="small")
    for text in [text for _, text, *_ in QUERIES] + ["release(owner)", "what is a snapshot"]:
        for arms in (
            {"dense": True, "lexical": True},
            {"dense": True, "lexical": False},
            {"dense": False, "lexical": True},
        ):
            theirs = {(row.path, row.layer, row.ordinal): row for row in real.rows(text, **arms)}
            ours = {(row.path, row.layer, row.ordinal): row for row in asked.rows(text, **arms)}
            assert theirs.keys() == ours.keys()
            for place, row in theirs.items():
                assert (ours[place].bm25 or 0.0) == pytest.approx(row.bm25 or 0.0, rel=1e-4)
                if row.distance is not None:
                    assert ours[place].distance == pytest.approx(row.distance, abs=2e-3)
    index.close()
    query.close()


def test_training_prefers_what_tells_right_from_wrong_and_never_scores_a_set_with_its_own_weights(
    data: Path, embedder: CachedEmbedder
) -> None:
    (course,) = read_courses(data, "small", embedder)
    pack = Pack([asked.lesson for asked in course.asked])
    weights = learn([pack])
    assert weights == learn([pack])
    assert all(value >= 0 for name, value in weights.items() if name not in SIGNED)
    found = train([course, course], frozenset(), lambda line: None)
    untrained = learn([])  # the two share a family, so nothing is left to learn from
    assert found["weights"] == learn([pack, pack]) != untrained
    assert [row["set"] for row in found["leave_one_set_out"]] == ["small", "small"]


def test_a_folder_of_sets_and_a_set_are_both_taken(data: Path) -> None:
    assert set_names(data, []) == (data, ["small"])
    assert set_names(data / "small", []) == (data, ["small"])
    with pytest.raises(ConfigurationError, match=r"no set named other.*small"):
        set_names(data, ["other"])
    with pytest.raises(ConfigurationError, match="holds no set"):
        set_names(data.parent, [])


def test_a_text_is_embedded_once(tmp_path: Path) -> None:
    class Counting(HashedEmbedder):
        embedded = 0

        def embed_documents(self, texts: list[str]):  # type: ignore[no-untyped-def, override]
            Counting.embedded += len(texts)
            return super().embed_documents(texts)

    for fingerprint, expected in (("f", 2), ("f", 2), ("g", 4)):
        cached = CachedEmbedder(
            embedder=Counting(), cache=VectorCache(tmp_path / "vectors.sqlite"), fingerprint=fingerprint
        )
        vectors = cached.embed_documents(["one", "two", "one"])
        assert (vectors[0] == vectors[2]).all()
        assert Counting.embedded == expected
