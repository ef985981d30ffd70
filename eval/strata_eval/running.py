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


def _has_chunks(folder: Path) -> bool:
    return any(row.get("chunks") for row, _ in json_lines(folder / "corpus.jsonl"))
