"""The ladder on the real stores: a small judged set is indexed, asked at each step and scored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from strata.errors import ConfigurationError, EmbedderRejected
from strata.providers.hashed.embedder import HashedEmbedder
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.search import PostgresSearch
from strata.storage.postgres.sessions import PostgresSessionStore
from strata_eval.indexed_sets import index_set, read_any_set
from strata_eval.ladder import run_set, verdict_on
from strata_eval.learning import SIGNED, Pack, learn
from strata_eval.memory import MemorySearch
from strata_eval.optional_models import OptionalModels, optional_models
from strata_eval.plotting import checked_plot, drawn, save_plot
from strata_eval.resampling import paired_bootstrap
from strata_eval.running import json_object, run, set_names
from strata_eval.steps import OPTIONAL, STEPS, Bench
from strata_eval.tables import ladder_table
from strata_eval.training import own_chunks, read_courses, train
from strata_eval.vector_cache import CachedEmbedder, VectorCache
from tests.support.model_server import completion, model_server, word_overlap
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


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def climb(postgres: TestDatabase, data: Path, embedder: CachedEmbedder) -> Iterator[Run]:
    index, query = Database(postgres.index_url), Database(postgres.query_url)

    def climbed(steps: Sequence[str], models: OptionalModels | None = None, name: str = "small") -> dict[str, Any]:
        return run_set(
            data,
            name,
            embedder=embedder,
            steps=steps,
            sessions=PostgresSessionStore(index),
            cache=PostgresBlobCache(index),
            search=PostgresSearch(query),
            models=models,
        )

    yield climbed
    index.close()
    query.close()


def test_a_run_reports_every_step_with_its_verdict(climb: Run, tmp_path: Path) -> None:
    report = climb(list(STEPS))
    assert (report["set"], report["embedder"], report["queries"]) == ("small", "hashed-256", 2)
    assert [step["name"] for step in report["steps"]] == list(STEPS)
    assert {step["verdict"] for step in report["steps"]} <= {"keep", "drop"}
    assert report["steps"][0]["difference"] is None
    for step in report["steps"]:
        assert set(step["latency_ms"]) == {"p50", "p95"}
        assert {"hit@1", "hit@5", "hit@10", "mrr@10", "ndcg@10", "precision@5", "symbol_hit@10"} <= set(step["metrics"])
        assert {"precision@5_by_document", "precision@5_by_chunk"} <= set(step["metrics"])
        assert step["metrics"]["hit@10"] == 1.0  # three files
        assert 0 < step["metrics"]["tokens@10"] < 1_000
        assert step["cost"] == {
            "calls": 0, "input_tokens": 0, "output_tokens": 0, "cost": 0, "failed_questions": 0
        }  # fmt: skip
    assert report["final"] == report["steps"][-1]["metrics"]
    assert set(report["arms"]) == {"dense", "bm25"}
    assert report["skipped"] == []
    table = ladder_table(report)
    assert table.columns == ("", "bm25", *STEPS)
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_the_final_figures_are_those_of_the_pipeline_as_it_ships_whatever_is_climbed(climb: Run) -> None:
    whole, naive = climb(list(STEPS)), climb(["naive"])
    assert [step["name"] for step in naive["steps"]] == ["naive"]
    assert (naive["final"], naive["arms"], naive["envelope"]) == (whole["final"], whole["arms"], whole["envelope"])


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        pytest.param([0.5] * 20, "keep", id="a gain everywhere"),
        pytest.param([0.5, -0.45] * 10, "drop", id="a mean above 0 that may be chance"),
        pytest.param([0.0] * 20, "drop", id="no difference"),
        pytest.param([-0.5] * 20, "drop", id="a loss"),
    ],
)
def test_a_step_is_kept_for_a_gain_that_is_shown(gains: list[float], verdict: str) -> None:
    change = paired_bootstrap([0.5] * len(gains), [0.5 + gain for gain in gains])
    assert verdict_on(change) == verdict


def test_a_file_that_can_not_be_indexed_is_named_and_not_found(climb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    embed = HashedEmbedder.embed_documents

    def refusing(self: HashedEmbedder, texts: Sequence[str]) -> object:
        if any("read_archive" in text for text in texts):
            raise EmbedderRejected("No vector for that.")
        return embed(self, texts)

    monkeypatch.setattr(HashedEmbedder, "embed_documents", refusing)
    report = climb(["naive"])
    assert report["failed"].keys() == {"upload.py"}
    assert report["final"]["hit@10"] == 0.5


REFUSED = ["", " \n", "?!", "\u200b", "\0"]


def _add_queries(data: Path, texts: Sequence[str]) -> None:
    with (data / "small" / "queries.jsonl").open("a") as queries, (data / "small" / "qrels.tsv").open("a") as qrels:
        for number, text in enumerate(texts):
            queries.write(json.dumps({"id": f"added {number}", "text": text}) + "\n")
            qrels.write(f"added {number}\tlock.py\t1\tacquire\t1\t2\n")


def test_a_query_that_the_search_refuses_finds_nothing(climb: Run, data: Path) -> None:
    before = climb(["features"])["final"]
    _add_queries(data, REFUSED)
    report = climb(list(STEPS))
    assert report["queries"] == 2 + len(REFUSED)
    assert report["final"]["hit@10"] == pytest.approx(before["hit@10"] * 2 / (2 + len(REFUSED)), abs=1e-4)


def test_steps_without_a_model_are_skipped_with_the_reason(
    climb: Run, tmp_path: Path, embedder: CachedEmbedder
) -> None:
    report = climb([*STEPS, *OPTIONAL], optional_models(embedder, tmp_path / "cache", {}))
    assert [step["name"] for step in report["steps"]] == [*STEPS, "structural"]
    assert [step["name"] for step in report["skipped"]] == list(OPTIONAL[1:])
    assert "STRATA_RERANKER" in report["skipped"][0]["reason"]
    assert all("STRATA_CHAT" in step["reason"] for step in report["skipped"][1:])
    notes = ladder_table(report).notes
    assert [note.partition(": ")[0] for note in notes[:4]] == [f"{step} was skipped" for step in OPTIONAL[1:]]
    alone = climb(["cross-encoder"], OptionalModels())
    assert (alone["steps"], [step["name"] for step in alone["skipped"]]) == ([], ["cross-encoder"])


def test_with_models_every_step_is_climbed_and_its_cost_is_told(
    climb: Run, tmp_path: Path, embedder: CachedEmbedder
) -> None:
    def answer(path: str, body: dict[str, Any]) -> Any:
        if path.endswith("/chat/completions"):
            return completion("release the lock of its owner", prompt_tokens=50, completion_tokens=5)
        scores = [word_overlap(body["query"], passage) for passage in body["documents"]]
        return 200, {"results": [{"index": n, "relevance_score": score} for n, score in enumerate(scores)]}

    with model_server(answer) as server:
        environment = {
            "STRATA_CHAT": "openai", "STRATA_CHAT_MODEL": "small", "STRATA_CHAT_URL": f"{server.url}/v1",
            "STRATA_CHAT_INPUT_PRICE": "1", "STRATA_CHAT_OUTPUT_PRICE": "2", "STRATA_RERANKER": "cohere",
            "STRATA_RERANKER_MODEL": "pairs", "STRATA_RERANKER_URL": server.url, "STRATA_RERANKER_PRICE": "2",
            "STRATA_PREAMBLE_TOKENS": "20",
        }  # fmt: skip
        report = climb([*STEPS, *OPTIONAL], optional_models(embedder, tmp_path / "cache", environment))
        asked = len(server.requests)
    assert report["skipped"] == []
    steps = {step["name"]: step for step in report["steps"]}
    assert list(steps) == [*STEPS, *OPTIONAL]
    assert {step["verdict"] for step in report["steps"]} <= {"keep", "drop"}
    assert all(step["cost"]["failed_questions"] == 0 for step in report["steps"])
    pairs = steps["cross-encoder"]["cost"]
    assert (pairs["calls"], pairs["output_tokens"], pairs["cost"]) == (2, 0, 0.004)
    assert pairs["input_tokens"] > 20
    rewritten = steps["rewrite"]["cost"]
    rerankings = 2 if steps["cross-encoder"]["verdict"] == "keep" else 0
    assert rewritten["calls"] == 2 + rerankings
    assert rewritten["cost"] == pytest.approx(2 * 60 / 1_000_000 + rerankings * 0.002)
    assert steps["preamble"]["cost"]["output_tokens"] >= 5 * 3  # a chunk a file at least
    assert report["final"] == steps["features"]["metrics"]
    # Again, with nobody there: every reply is kept, and costs what it cost.
    again = climb_again(climb, embedder, tmp_path / "cache", environment)
    assert {step["name"]: step["cost"] for step in again["steps"]} == {
        name: step["cost"] for name, step in steps.items()
    }
    assert {step["name"]: step["metrics"] for step in again["steps"]} == {
        name: step["metrics"] for name, step in steps.items()
    }
    assert asked > 5


def climb_again(climb: Run, embedder: CachedEmbedder, cache: Path, environment: dict[str, str]) -> dict[str, Any]:
    return climb([*STEPS, *OPTIONAL], optional_models(embedder, cache, environment))


def test_the_extractive_model_climbs_without_a_network(climb: Run, tmp_path: Path, embedder: CachedEmbedder) -> None:
    models = optional_models(
        embedder, tmp_path / "cache", {"STRATA_CHAT": "extractive", "STRATA_PREAMBLE_TOKENS": "20"}
    )
    report = climb(["features", "rewrite", "hyde", "preamble"], models)
    steps = {step["name"]: step for step in report["steps"]}
    assert list(steps) == ["features", "rewrite", "hyde", "preamble"]
    assert steps["rewrite"]["metrics"]["ndcg@10"] == steps["features"]["metrics"]["ndcg@10"]  # it repeats the question
    assert steps["preamble"]["cost"]["calls"] > 0
    assert steps["preamble"]["cost"]["cost"] is None


def test_a_step_whose_model_fails_says_how_often_and_is_dropped(
    climb: Run, tmp_path: Path, embedder: CachedEmbedder
) -> None:
    with model_server(lambda path, body: (400, {"message": "no"})) as server:
        environment = {"STRATA_RERANKER": "cohere", "STRATA_RERANKER_MODEL": "m", "STRATA_RERANKER_URL": server.url}
        report = climb(["features", "cross-encoder"], optional_models(embedder, tmp_path / "cache", environment))
    features, pairs = report["steps"]
    assert (pairs["verdict"], pairs["cost"]["failed_questions"]) == ("drop", 2)
    assert pairs["metrics"] == features["metrics"]
    assert (features["notes"], len(pairs["notes"])) == ([], 1)


def test_a_model_that_is_away_when_preambles_are_written_costs_that_step_alone(
    climb: Run, tmp_path: Path, embedder: CachedEmbedder
) -> None:
    with model_server(lambda path, body: (503, {"message": "later"})) as server:
        environment = {"STRATA_CHAT": "openai", "STRATA_CHAT_MODEL": "m", "STRATA_CHAT_URL": server.url}
        report = climb(["features", "preamble"], optional_models(embedder, tmp_path / "cache", environment))
    assert [step["name"] for step in report["steps"]] == ["features"]
    assert [(step["name"], step["reason"][:14]) for step in report["skipped"]] == [("preamble", "The chat model")]


def test_given_chunks_get_preambles_too(climb: Run, data: Path, tmp_path: Path, embedder: CachedEmbedder) -> None:
    corpus = data / "small" / "corpus.jsonl"
    rows = [json.loads(line) for line in corpus.read_text().splitlines()]
    corpus.write_text("".join(json.dumps({**row, "chunks": [row["text"]]}) + "\n" for row in rows))
    models = optional_models(
        embedder, tmp_path / "cache", {"STRATA_CHAT": "extractive", "STRATA_PREAMBLE_TOKENS": "20"}
    )
    report = climb(["features", "preamble"], models, "small-given")
    assert report["chunks"] == 3
    assert report["steps"][1]["cost"]["calls"] == 3


REPORTS = [
    {"set": name, "steps": [{"name": step, "metrics": {"ndcg@10": value}} for step, value in steps.items()]}
    for name, steps in {"one": {"naive": 0.5, "features": 0.75}, "two": {"naive": 0.25}}.items()
]


def test_the_plot_is_saved_as_its_ending_says(tmp_path: Path) -> None:
    png, svg = tmp_path / "ladder.png", tmp_path / "ladder.svg"
    for path in (png, svg):
        save_plot(REPORTS, checked_plot(path))
    content = png.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    assert (width > 300, height > 300) == (True, True)
    text = svg.read_text()
    for label in ("one", "two", "naive", "features", "ndcg@10"):
        assert f">{label}</text>" in text
    again = tmp_path / "again.svg"
    save_plot(REPORTS, again)
    assert again.read_text() == text


@pytest.mark.parametrize("sets", [1, 2, 9])
def test_the_whole_legend_is_in_the_picture(sets: int) -> None:
    steps = [{"name": name, "metrics": {"ndcg@10": 0.5}} for name in (*STEPS, *OPTIONAL)]
    figure = drawn([{"set": f"set {number}", "steps": steps} for number in range(sets)], "ndcg@10")
    figure.draw_without_rendering()
    legend, canvas = figure.legends[0].get_window_extent(), figure.bbox
    assert (legend.x0 >= 0, legend.x1 <= canvas.x1, legend.y1 <= canvas.y1) == (True, True, True)


@pytest.mark.parametrize("name", ["ladder.pdf", "ladder", "missing/ladder.png"])
def test_a_plot_that_can_not_be_saved_is_refused_before_the_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"\.png|no folder"):
        checked_plot(tmp_path / name)


def test_an_unknown_step_names_the_known_ones(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="hyde, preamble"):
        run(
            data, sets=[], steps=["magic"], embedder="onnx", layers=[], models=tmp_path, cache=tmp_path, say=print
        )  # fmt: skip


def test_memory_and_postgres_find_the_same(postgres: TestDatabase, data: Path, embedder: CachedEmbedder) -> None:
    index, query = Database(postgres.index_url), Database(postgres.query_url)
    judged = read_any_set(data, "small")
    index_set(judged, data, embedder=embedder, sessions=PostgresSessionStore(index), cache=PostgresBlobCache(index))
    real = Bench(search=PostgresSearch(query), embedder=embedder, name="small")
    chunks = sorted(real.rows("owner archive lock guide", dense=True, lexical=True), key=lambda row: row.chunk_id)
    cut = own_chunks(judged, embedder)
    assert len(chunks) == len(cut)
    memory = MemorySearch(
        cut, embedder.embed_documents([chunk.embedded_text for chunk in cut]), embedding_model="hashed-256"
    )
    asked = Bench(search=memory, embedder=embedder, name="small")
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
    said: list[str] = []
    found = train([course, course], frozenset(), said.append)
    assert "no other set to learn from" in said[0]
    untrained = learn([])  # the two share a family, so nothing is left to learn from
    assert found["weights"] == learn([pack, pack]) != untrained
    assert [row["set"] for row in found["leave_one_set_out"]] == ["small", "small"]


def test_training_leaves_out_what_the_ladder_finds_nothing_for(data: Path, embedder: CachedEmbedder) -> None:
    (before,) = read_courses(data, "small", embedder)
    _add_queries(data, REFUSED)
    with (data / "small" / "corpus.jsonl").open("a") as file:
        file.write(json.dumps({"path": "broken.ipynb", "text": "no notebook"}) + "\n")
    (course,) = read_courses(data, "small", embedder)
    assert [len(asked.retrieved.candidates) for asked in course.asked[2:]] == [0] * len(REFUSED)
    assert learn([Pack([asked.lesson for asked in course.asked])]) == learn(
        [Pack([asked.lesson for asked in before.asked])]
    )


def test_a_folder_of_sets_and_a_set_are_both_taken(data: Path) -> None:
    assert set_names(data, []) == (data, ["small"])
    assert set_names(data / "small", []) == (data, ["small"])
    with pytest.raises(ConfigurationError, match=r"no set named other.*small"):
        set_names(data, ["other"])
    with pytest.raises(ConfigurationError, match="holds no set"):
        set_names(data.parent, [])


def test_one_set_is_one_object_with_its_own_chunks_inside(data: Path) -> None:
    corpus = data / "small" / "corpus.jsonl"
    rows = [json.loads(line) for line in corpus.read_text().splitlines()]
    corpus.write_text("\ufeff" + "".join(json.dumps({**row, "chunks": [row["text"]]}) + "\n" for row in rows))
    _, names = set_names(data / "small", [])
    assert names == ["small", "small-given"]
    reports = [{"set": name, "final": {}} for name in names]
    alone = {"set": "small", "final": {}, "given_chunks": {"set": "small-given", "final": {}}}
    assert json_object(reports) == alone
    assert json_object(reports[1:]) == reports[1]
    other = {"set": "other", "final": {}}
    assert json_object([*reports, other]) == {"sets": [alone, other]}
    assert json_object([{"set": "x-given"}, other]) == {"sets": [{"set": "x-given"}, other]}


def test_a_folder_may_end_like_a_set_of_given_chunks(data: Path) -> None:
    (data / "small").rename(data / "my-given")
    assert set_names(data, []) == (data, ["my-given"])
    judged = read_any_set(data, "my-given")
    assert (judged.name, judged.given, len(judged.queries)) == ("my-given", False, 2)


@pytest.mark.parametrize("name", ["мой набор", "a b", "-x", "long" * 60])
def test_a_set_may_have_any_name_that_a_folder_can_have(
    climb: Run, data: Path, name: str, tmp_path: Path, embedder: CachedEmbedder
) -> None:
    (data / "small").rename(data / name)
    models = optional_models(
        embedder, tmp_path / "cache", {"STRATA_CHAT": "extractive", "STRATA_PREAMBLE_TOKENS": "20"}
    )
    report = climb(["features", "preamble"], models, name)
    assert (report["set"], report["final"]["hit@10"], len(report["steps"])) == (name, 1.0, 2)


def test_a_fault_of_a_set_is_named_before_any_is_asked(data: Path, tmp_path: Path) -> None:
    with (data / "small" / "qrels.tsv").open("a") as file:
        file.write("q1\tlock.py\t1\trelease\tfive\tsix\n")
    said: list[str] = []
    with pytest.raises(ConfigurationError, match=r"qrels\.tsv.*'five'"):
        run(
            data, sets=[], steps=[], embedder="static", layers=[], models=tmp_path, cache=tmp_path, say=said.append
        )  # fmt: skip
    (data / "small" / "corpus.jsonl").unlink()
    with pytest.raises(ConfigurationError, match=r"corpus\.jsonl can't be read"):
        set_names(data, [])
    assert said == []


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
