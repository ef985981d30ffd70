"""The guard against regressions passes as the pipeline is, and fails when a part of it is broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strata.model.asking import Question, Retrieved
from strata.retrieval import retrieve
from strata.retrieval.features import FeatureReranker
from strata.retrieval.weighing import FusionWeights, QuestionShape
from strata_eval import regression
from strata_eval.dataset import read_set
from strata_eval.regression import FLOORS, SAMPLES, check
from tests.support.minilm import minilm_directory

RUSSIAN = {"russian": FLOORS["russian"]}


def checked(cache: Path) -> dict[str, Any]:
    return check(models=minilm_directory().parent, cache=cache, say=lambda _: None, floors=RUSSIAN)


def test_the_samples_are_whole_and_each_has_floors() -> None:
    assert {path.parent.name for path in SAMPLES.glob("*/qrels.tsv")} == FLOORS.keys()
    for name in FLOORS:
        assert read_set(SAMPLES / name).unjudged == 0


def test_the_pipeline_holds_and_every_broken_part_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path_factory.mktemp("vectors")
    assert checked(cache)["faults"] == []

    def unweighed(_shape: QuestionShape) -> FusionWeights:
        return FusionWeights(dense=1.0, lexical=1.0)

    def unranked(_self: FeatureReranker, _question: Question, retrieved: Retrieved) -> Retrieved:
        return retrieved

    with monkeypatch.context() as broken:
        broken.setattr(retrieve, "fusion_weights", unweighed)
        broken.setattr(FeatureReranker, "rerank", unranked)
        assert any("ndcg@10" in fault for fault in checked(cache)["faults"])
    with monkeypatch.context() as broken:
        broken.setattr(retrieve, "query_terms", lambda text: ("nothing",))
        assert any("worse than bm25 alone" in fault for fault in checked(cache)["faults"])


def test_a_figure_below_its_floor_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = {
        "set": "english",
        "final": {"hit@10": 0.5, "ndcg@10": 0.9},
        "envelope": {"holds": False, "better_arm": "dense"},
    }
    monkeypatch.setattr(regression, "run", lambda *_, **__: [report])
    found = check(models=tmp_path, cache=tmp_path, say=lambda _: None)
    assert found["faults"] == [
        "english: hit@10 is 0.500, below 0.91",
        "english: the pipeline is worse than dense alone",
    ]
