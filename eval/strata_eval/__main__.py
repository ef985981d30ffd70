"""`python -m strata_eval quantisation`: on this project's own code, or on judged sets in a folder (`--data`)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from strata.errors import StrataError
from strata_eval.dataset import JudgedSet, read_set
from strata_eval.dense import windows
from strata_eval.own_code import from_python_sources
from strata_eval.quantisation import Fingerprinted, run_quantisation, run_speed
from strata_local.models import FP32_DIRECTORY, pull_minilm

PROJECT = Path(__file__).resolve().parents[2]
DEFAULT_MODELS = PROJECT / ".strata" / "models"


def main(arguments: Sequence[str] | None = None) -> int:
    """Status 0 when the loss holds, 1 when it does not, 2 when it can't be measured."""
    parser = argparse.ArgumentParser(prog="python -m strata_eval", description=__doc__)
    parser.add_argument("measurement", nargs="?", default="quantisation", choices=["quantisation"])
    parser.add_argument("--data", type=Path, help="a folder of judged sets; without it, the project's own code is one")
    parser.add_argument("--sets", default="", help="names of sets in the folder, with commas between; default: all")
    parser.add_argument("--cache", type=Path, default=PROJECT / ".strata" / "eval", help="where vectors are kept")
    parser.add_argument("--threads", type=int, default=0, help="0: every core")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(arguments)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        models = Path(os.environ.get("STRATA_MODEL_DIRECTORY", "").strip() or DEFAULT_MODELS)
        model = pull_minilm(models / "minilm", say=say, keep_fp32=True)
        int8 = Fingerprinted.load(model, threads=options.threads)
        fp32 = Fingerprinted.load(model / FP32_DIRECTORY, threads=options.threads)
        sets = _sets(options.data, [name for name in options.sets.split(",") if name])
        found = run_quantisation(sets, int8=int8, fp32=fp32, cache=options.cache, say=say)
        texts = [window.text for window in windows(sets[0], fp32.embedder)]
        found["speed"] = run_speed(texts, int8=int8.embedder, fp32=fp32.embedder)
    except StrataError as error:
        say(error.message)
        return 2
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print(_table(found))
    return 0 if found["holds"] else 1


def _sets(data: Path | None, names: Sequence[str]) -> list[JudgedSet]:
    if data is None:
        return [from_python_sources(PROJECT / "layers" / "common" / "strata")]
    folders = [data / name for name in names] or sorted(path.parent for path in data.glob("*/qrels.tsv"))
    return [read_set(folder) for folder in folders]


def _table(found: dict[str, object]) -> str:
    sets = found["sets"]
    assert isinstance(sets, list)  # noqa: S101 - for the type checker
    lines = [f"{'set':20} {'queries':>7} {'fp32':>7} {'int8':>7} {'difference, 95 % bounds':>28} {'cosine':>8}"]
    for row in sets:
        change = row["difference"]
        bounds = f"{change['mean']:+.4f} ({change['low']:+.4f} to {change['high']:+.4f})"
        lines.append(
            f"{row['set']:20} {row['queries']:7} {row['fp32']['ndcg_at_10']:7.4f} {row['int8']['ndcg_at_10']:7.4f} "
            f"{bounds:>28} {row['cosine']['mean']:8.5f}"
        )
    verdict = "holds" if found["holds"] else "DOES NOT HOLD"
    lines += [
        f"loss below {found['greatest_loss_allowed']} on every set: {verdict}",
        f"speed: {json.dumps(found['speed'])}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
