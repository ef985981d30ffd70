"""`strata eval check`: the guard against regressions, on the judged samples in `eval/samples`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from strata_eval.running import run

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
FLOORS = {
    "english": {"hit@10": 0.91, "ndcg@10": 0.695},
    "russian": {"hit@10": 0.95, "ndcg@10": 0.885},
}
"""What the pipeline as it ships must reach on each sample; 0.02 to 0.05 below what it reached when this was written.

Without the reranker the English sample falls below its floor; without it and the weights by language the Russian one.
"""


def check(
    *,
    models: Path,
    cache: Path,
    say: Callable[[str], None],
    floors: Mapping[str, Mapping[str, float]] = FLOORS,
    embedder: str = "onnx",
) -> dict[str, Any]:
    """The reports on the samples under `sets`, and in words what is below its floor under `faults`."""
    reports = run(
        SAMPLES, sets=list(floors), steps=["naive", "features"], embedder=embedder, layers=[], models=models,
        cache=cache, say=say,
    )  # fmt: skip
    return {
        "sets": reports,
        "faults": [fault for report in reports for fault in _faults(report, floors[report["set"]])],
    }


def _faults(report: Mapping[str, Any], floors: Mapping[str, float]) -> list[str]:
    found = [
        f"{report['set']}: {name} is {report['final'][name]:.3f}, below {floor}"
        for name, floor in floors.items()
        if report["final"][name] < floor
    ]
    if not report["envelope"]["holds"]:
        found.append(f"{report['set']}: the pipeline is worse than {report['envelope']['better_arm']} alone")
    return found
