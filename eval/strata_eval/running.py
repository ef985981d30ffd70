"""`strata eval run` and `strata eval train`, from names of sets to reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from strata.errors import ConfigurationError
from strata.model.corpus import Layer
from strata.retrieval.features import WEIGHTS_FILE
from strata_eval.dataset import json_lines
from strata_eval.indexed_sets import GIVEN, folder_of, postgres, read_any_set
from strata_eval.judgements import read_golden
from strata_eval.ladder import run_set
from strata_eval.models import cached_embedder
from strata_eval.optional_models import optional_models
from strata_eval.steps import OPTIONAL, STEPS
from strata_eval.training import read_courses, train

Say = Callable[[str], None]


def set_names(data: Path, chosen: Sequence[str]) -> tuple[Path, list[str]]:
    """The folder that holds the sets, and which to run: those chosen, or the one that `data` is, or all in it.

    A set with chunks of its own is run twice: cut by us, and (its name with `-given`) as it comes.
    """
    if (data / "qrels.tsv").is_file():
        data, found = data.absolute().parent, [data.absolute().name]
    else:
        found = sorted(path.parent.name for path in data.glob("*/qrels.tsv"))
    given = [f"{name}{GIVEN}" for name in found if _has_chunks(data / name)]
    found += [name for name in given if name not in found]
    unknown = sorted(set(chosen) - set(found))
    if unknown or not found:
        raise ConfigurationError(
            f"{data} holds no set named {', '.join(unknown)}; it holds: {', '.join(sorted(found))}."
            if found
            else f"{data} holds no set: a folder with corpus.jsonl, queries.jsonl and qrels.tsv."
        )
    return data, list(chosen) or sorted(found)


def run(
    data: Path,
    *,
    sets: Sequence[str],
    steps: Sequence[str],
    embedder: str,
    layers: Sequence[str],
    models: Path,
    cache: Path,
    say: Say,
) -> list[dict[str, Any]]:
    """One object a set. Raises `ConfigurationError` for an unknown set or step, for a set that can't be read, and for a
    model that is named wrongly.

    Optional steps use the models that the environment configures.
    """
    known = (*STEPS, *OPTIONAL)
    if unknown := sorted(set(steps) - set(known)):
        raise ConfigurationError(f"There is no step {', '.join(unknown)}; the steps are {', '.join(known)}.")
    folder, names = set_names(data, sets)
    for name in names:  # a fault in the last set is named before the first is asked
        read_any_set(folder, name)
        read_golden(folder_of(folder, name))
    with_cache = cached_embedder(embedder, models=models, cache=cache, say=say)
    optional = optional_models(with_cache, cache)
    reports = []
    with postgres() as (sessions, blobs, search):
        for name in names:
            say(f"{name}: indexing and asking")
            reports.append(
                run_set(
                    folder,
                    name,
                    embedder=with_cache,
                    steps=list(steps) or known,
                    sessions=sessions,
                    cache=blobs,
                    search=search,
                    layers=[Layer.named(layer) for layer in layers],
                    models=optional,
                )
            )
    return reports


def run_training(
    data: Path, *, sets: Sequence[str], embedder: str, models: Path, cache: Path, write: bool, commit: str, say: Say
) -> dict[str, Any]:
    """Train on the sets; with `write`, the weights go into the package, with the run that made them."""
    folder, names = set_names(data, sets)
    with_cache = cached_embedder(embedder, models=models, cache=cache, say=say)
    courses = []
    for name in names:
        say(f"{name}: reading")
        courses += read_courses(folder, name, with_cache)
    found = train(courses, with_cache.languages, say)
    report = {
        "weights": found["weights"],
        "run": {
            "date": datetime.now(UTC).date().isoformat(),
            "commit": commit,
            "embedder": with_cache.model_id,
            "sets": names,
            "leave_one_set_out": found["leave_one_set_out"],
        },
    }
    if write:
        WEIGHTS_FILE.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


def json_object(reports: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What `--json` prints: one set's report, or `{"sets": [...]}`. What was asked of the chunks that a set brings
    along stands in its report, under `given_chunks`."""
    objects = {report["set"]: dict(report) for report in reports}
    for name in list(objects):
        if (parent := objects.get(name.removesuffix(GIVEN))) is not None and parent["set"] != name:
            parent["given_chunks"] = objects.pop(name)
    found = list(objects.values())
    return found[0] if len(found) == 1 else {"sets": found}


SHOWN = {
    "hit@1": "hit@1", "hit@10": "hit@10", "mrr@10": "mrr@10", "ndcg@10": "ndcg@10",
    "precision@5": "precision@5 (chunks of a relevant file)", "precision@5_by_chunk": "precision@5 (golden chunks)",
    "precision@5_by_document": "precision@5 (documents)",
    "pass@5": "pass@5", "pass@10": "pass@10", "pass@20": "pass@20",
    "symbol_hit@10": "symbol_hit@10", "symbol_ndcg@10": "symbol_ndcg@10", "tokens@10": "tokens@10",
}  # fmt: skip
"""Metrics, and what stands over their columns."""


def table_rows(reports: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The ladder as a table: columns and rows."""
    columns = [
        "set",
        "step",
        *SHOWN.values(),
        "p50 ms",
        "p95 ms",
        "tokens",
        "cost",
        "change of nDCG@10 (95 %)",
        "verdict",
    ]
    rows = []
    for report in reports:
        rows.append([report["set"], "(bm25 alone)", *_figures(report["arms"]["bm25"]), *[""] * 6])
        for step in report["steps"]:
            change, cost = step["difference"], step["cost"]
            rows.append(
                [
                    report["set"],
                    step["name"],
                    *_figures(step["metrics"]),
                    f"{step['latency_ms']['p50']:.1f}",
                    f"{step['latency_ms']['p95']:.1f}",
                    f"{cost['input_tokens'] + cost['output_tokens']:,}" if cost["calls"] else "",
                    "" if cost["cost"] is None else f"{cost['cost']:g}",
                    f"{change['mean']:+.3f} ({change['low']:+.3f} to {change['high']:+.3f})" if change else "",
                    step["verdict"],
                ]
            )
        for skipped in report["skipped"]:
            blank = [""] * (len(columns) - 3)
            rows.append([report["set"], skipped["name"], *blank, f"skipped: {skipped['reason']}"])
    return columns, rows


def _figures(metrics: Mapping[str, float]) -> list[str]:
    return [
        "" if name not in metrics else f"{metrics[name]:,.0f}" if name == "tokens@10" else f"{metrics[name]:.3f}"
        for name in SHOWN
    ]


def _has_chunks(folder: Path) -> bool:
    return any(row.get("chunks") for row, _ in json_lines(folder / "corpus.jsonl"))
