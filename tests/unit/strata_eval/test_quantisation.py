"""The measurement of rounding, on a few documents with the real model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from strata_eval.__main__ import main
from strata_eval.dataset import JudgedDocument, JudgedQuery, JudgedSet
from strata_eval.quantisation import Fingerprinted, run_quantisation, run_speed
from strata_local.models import FP32_DIRECTORY
from tests.support.minilm import minilm, minilm_directory

TEXTS = {
    "lease.md": "A worker holds the lock of a session as long as it renews its lease.",
    "fence.md": "Every commit carries a fence; a holder with an older one writes nothing.",
    "cache.md": "Prepared files are kept by the hash of their bytes and are never embedded twice.",
    "fruit.md": "Bananas are rich in potassium and grow in warm countries.",
}
ASKED = {
    "lease.md": "How does a worker keep the lock?",
    "fence.md": "What stops a stale holder from committing?",
    "cache.md": "How is double embedding avoided?",
    "fruit.md": "Where do bananas grow?",
}
SMALL = JudgedSet(
    name="small",
    documents=tuple(JudgedDocument(path=path, title="", text=text) for path, text in TEXTS.items()),
    queries=tuple(JudgedQuery(query_id=path, text=question) for path, question in ASKED.items()),
    relevant={path: frozenset({path}) for path in TEXTS},
)


def models() -> dict[str, Fingerprinted]:
    directory = minilm_directory()
    return {"int8": Fingerprinted.load(directory), "fp32": Fingerprinted.load(directory / FP32_DIRECTORY)}


def test_both_models_are_scored_on_the_same_texts(tmp_path: Path) -> None:
    found = run_quantisation([SMALL], **models(), cache=tmp_path, say=print)
    (row,) = found["sets"]
    assert (row["documents"], row["windows"], row["queries"]) == (4, 4, 4)
    assert row["fp32"]["ndcg_at_10"] == row["int8"]["ndcg_at_10"] == 1.0
    assert row["difference"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert 0.98 < row["cosine"]["least"] < 1.0
    assert found["holds"] is True


def test_a_loss_is_not_hidden(tmp_path: Path) -> None:
    """With vectors in the cache that belong to other texts, the loss must show."""
    loaded = models()
    run_quantisation([SMALL], **loaded, cache=tmp_path, say=print)
    vectors_of_one_kind = sorted(tmp_path.glob("minilm-l6-v2-int8-*.npy"))[0]
    np.save(vectors_of_one_kind, np.load(vectors_of_one_kind)[::-1])
    found = run_quantisation([SMALL], **loaded, cache=tmp_path, say=print)
    assert found["holds"] is False
    assert found["sets"][0]["difference"]["mean"] < -0.1


def test_speed_is_measured_for_both() -> None:
    found = run_speed(["some text to read"] * 4, int8=minilm(), fp32=minilm(fp32=True))
    assert found["texts"] == 4
    assert found["mean_tokens"] == 4
    assert min(found["fp32"]["chunks_per_s"], found["int8"]["chunks_per_s"]) > 0


def test_the_command_prints_one_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_MODEL_DIRECTORY", str(minilm_directory().parent))
    folder = tmp_path / "sets" / "small"
    folder.mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"path": path, "title": "", "text": text}) + "\n" for path, text in TEXTS.items())
    )
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({"id": path, "text": text}) + "\n" for path, text in ASKED.items())
    )
    (folder / "qrels.tsv").write_text("query_id\tpath\trelevance\n" + "".join(f"{p}\t{p}\t1\n" for p in TEXTS))
    command = ["--data", str(tmp_path / "sets"), "--cache", str(tmp_path / "cache")]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sets"][0]["set"] == "small"
    assert main(command) == 0
    assert "below 0.005 on every set: holds" in capsys.readouterr().out
    assert main([*command, "--sets", "absent"]) == 2
