"""`strata eval check`: the guard against regressions, on questions made from this project's own files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from strata_eval.running import run
from strata_eval.synth import write_synthetic

FLOORS = {"hit@10": 0.78, "ndcg@10": 0.57}
"""What the whole pipeline must reach; about 0.05 below what it reached when this was written."""
QUESTIONS = 150


def check(project: Path, *, models: Path, cache: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The ladder's report on the project's documents and package, with what is below its floor under `faults`."""
    files = {
        path.relative_to(project).as_posix(): path.read_text(encoding="utf-8")
        for folder in ("docs", "layers/common/strata")
        for pattern in ("*.md", "*.py")
        for path in sorted((project / folder).rglob(pattern))
    }
    with TemporaryDirectory(prefix="strata-check-") as name:
        folder = Path(name) / "own-files"
        count = sum(write_synthetic(files, folder, most=QUESTIONS).values())
        say(f"{count} questions from {len(files)} files")
        (report,) = run(folder, sets=[], steps=[], embedder="onnx", layers=[], models=models, cache=cache, say=say)
    faults = [
        f"{name} is {report['final'][name]:.3f}, below {floor}"
        for name, floor in FLOORS.items()
        if report["final"][name] < floor
    ]
    if not report["envelope"]["holds"]:
        faults.append(f"the pipeline is worse than {report['envelope']['better_arm']} alone")
    return {**report, "faults": faults}
