"""The benchmark runs through the real use cases and says what it saw."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from strata_client.cli.main import main

FILES = {
    f"package/module_{number}.py": f'"""Module {number}."""\n\ndef answer_{number}(value):\n    return {number}\n'
    for number in range(12)
}


def test_a_small_corpus_is_indexed_and_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"path": path, "text": text}) + "\n" for path, text in FILES.items())
    )
    (tmp_path / "queries.jsonl").write_text(
        "".join(json.dumps({"id": number, "text": f"what does answer_{number} return?"}) + "\n" for number in range(5))
    )
    assert main(["bench", "all", "--data", str(tmp_path), "--embedder", "hashed", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    index, query = found["index"], found["query"]
    assert (index["files"], index["failed_files"], index["repeat_cache_hit_files"]) == (12, 0, 12)
    assert index["chunks"] == query["rows"] > 24
    assert index["one_file_change_s"] > 0
    assert 0 < index["seconds"] <= index["job_s"]
    assert query["questions"] == 5
    for way in ("retrieve", "search", "embed", "plain_sql"):
        assert 0 < query[way]["p50_ms"] <= query[way]["p95_ms"]


def test_indexing_alone_is_measured_with_stored_vectors_and_copies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"path": path, "text": text}) + "\n" for path, text in FILES.items())
    )
    (tmp_path / "queries.jsonl").write_text("")
    arguments = ["bench", "index", "--data", str(tmp_path), "--embedder", "hashed", "--copies", "1,2", "--json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["files"], found["failed_files"]) == (12, 0)
    assert found["layers"]["C1_SYMBOL_CATALOG"]["documents"] >= 24
    assert sum(layer["chunks"] for layer in found["layers"].values()) == found["chunks"]
    assert [size["files"] for size in found["growth"]["sizes"]] == [12, 24]
    assert found["growth"]["exponent"] is not None
    for measured in (found, *found["growth"]["sizes"]):
        assert 20 < measured["peak_rss_mb"] < 500
        assert 20 < measured["peak_memory_mb"] < 1_000
        assert measured["cpu_s"] > 0


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"path": path, "text": text}) + "\n" for path, text in FILES.items())
    )
    (tmp_path / "queries.jsonl").write_text(
        "".join(json.dumps({"id": number, "text": f"what does answer_{number} return?"}) + "\n" for number in range(5))
    )
    return tmp_path


def test_the_command_compares_search_with_plain_sql(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "query", "--data", str(corpus), "--embedder", "hashed", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] > 24
    assert 0 < found["p50_ms"] <= found["p95_ms"]
    assert found["plain_sql_p50_ms"] > 0
    assert found["ratio"] == pytest.approx(found["p50_ms"] / found["plain_sql_p50_ms"], rel=0.05)


def test_given_chunks_are_asked_as_one_layer(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunks = corpus / "chunks.jsonl"
    chunks.write_text("".join(json.dumps({"path": path, "text": text}) + "\n" for path, text in FILES.items()))
    arguments = ["bench", "query", "--data", str(corpus), "--embedder", "hashed", "--json"]
    assert main([*arguments, "--chunks", str(chunks)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["questions"]) == (len(FILES), 5)
    assert found["cpu_ms"]["here"] > 0
    chunks.write_text('{"path": "a.py"}\n')
    assert main([*arguments, "--chunks", str(chunks)]) == 1
    assert "chunks.jsonl:1 lacks a text" in capsys.readouterr().err


@pytest.mark.parametrize("way", [[], ["--bulk"]], ids=["commits", "copy"])
def test_growth_is_measured_at_each_size(corpus: Path, capsys: pytest.CaptureFixture[str], way: list[str]) -> None:
    arguments = ["bench", "scale", "--data", str(corpus), "--embedder", "hashed", "--json", *way]
    picture = corpus / "growth.svg"
    sizes = ["--sizes", "100,1200", "--sessions", "1,3", "--churn", "3", "--plot", str(picture)]
    assert main([*arguments, *sizes]) == 0
    for drawn in (picture, corpus / "growth-sessions.svg"):
        assert ElementTree.fromstring(drawn.read_text()).tag.endswith("svg")
    found = json.loads(capsys.readouterr().out)
    small, large = found["sizes"]
    assert 100 <= small["rows"] < 200
    assert 1_200 <= large["rows"] < 1_300
    one, three = found["sessions"]
    assert (one["sessions"], three["sessions"]) == (1, 3)
    assert 3_000 <= three["rows"] < 3_300
    assert three["planning_cpu_ms"] > 0
    assert three["backend_mb"] > 0
    for measured in (small, large, one, three):
        assert 0 < measured["p50_ms"] <= measured["p95_ms"]
        assert set(measured["recall@10"].values()) == {1.0}
    assert set(large["recall@10"]) == {"100 %", "10 %", "1 %"}


def test_one_changed_file_is_measured_through_the_cloud(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "cloud", "--data", str(corpus), "--copies", "1,3", "--json"]) == 0
    small, large = json.loads(capsys.readouterr().out)["sizes"]
    assert (small["files"], large["files"]) == (12, 36)
    for size in (small, large):
        assert size["chunks"] > size["files"]
        assert 0 < size["accepted_s"] < size["one_file_change_s"]
        assert 0 < size["question_s"] < size["one_file_change_s"]
        assert size["cpu_s"] > 0
        assert size["postgres_cpu_s"] > 0


@pytest.mark.parametrize("what", ["all", "index", "query", "scale", "cloud"])
def test_a_corpus_that_is_not_there_is_an_error(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", what, "--data", str(tmp_path / "nowhere")]) == 1
    assert "can't be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["index", "--copies", "1,x"], id="copies that are no numbers"),
        pytest.param(["scale", "--sizes", "many"], id="sizes that are none"),
        pytest.param(["query", "--embedder", "guessed"], id="an embedder that is none"),
        pytest.param(["query", "--sizes", "100"], id="another command's option"),
        pytest.param(["everything"], id="no such command"),
    ],
)
def test_what_can_not_be_measured_is_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    assert capsys.readouterr().out == ""
