"""`strata bench`: index a corpus and ask it, on a Postgres and an S3 that are started for this run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strata.errors import StrataError
from strata.ports import Embedder
from strata_bench.corpus import PROJECT, Corpus, own_corpus, read_corpus
from strata_bench.index import run_growth, run_index
from strata_bench.query import run_query
from strata_bench.vectors import StoredVectors
from strata_bench.workbench import Workbench, workbench
from strata_local.errors import LocalCloudError
from strata_local.models import pull_minilm

EXAMPLE = "Example: strata bench index --data DIR --json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Status 0, or 2 when it can't be measured."""
    options = _parser().parse_args(arguments)
    try:
        corpus = read_corpus(options.corpus) if options.corpus else own_corpus()
        embedder = _embedder(options.embedder, threads=options.threads)
        if options.what == "index" and not options.embed:
            embedder = StoredVectors(embedder=embedder)
        with workbench(embedder) as bench:
            found = _measured(bench, corpus, options)
    except (StrataError, LocalCloudError) as error:
        _say(str(error))
        return 2
    found = {"embedder": embedder.model_id, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), **found}
    print(json.dumps(found, indent=None if options.json else 2))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="strata bench", description=__doc__, epilog=EXAMPLE)
    parser.add_argument(
        "what",
        nargs="?",
        choices=["all", "index"],
        default="all",
        help="index: files and chunks a second, embedding apart; all: with the model's work, then questions",
    )
    parser.add_argument(
        "--data",
        "--corpus",
        dest="corpus",
        type=Path,
        help="a folder with corpus.jsonl and queries.jsonl; default: this project",
    )
    parser.add_argument("--embedder", choices=["onnx", "hashed"], default="onnx", help="`hashed` costs no time")
    parser.add_argument("--threads", type=int, default=0, help="threads of the embedder; 0: one a core")
    parser.add_argument("--embed", action="store_true", help="index: with the embedder's work, not stored vectors")
    parser.add_argument("--copies", default="", help="index: growth with so many copies of the corpus, say 1,4,16")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    return parser


def _measured(bench: Workbench, corpus: Corpus, options: argparse.Namespace) -> dict[str, Any]:
    _say(f"indexing {len(corpus.files)} files of {corpus.name}")
    index = run_index(bench, corpus)
    if options.what == "index":
        copies = [int(count) for count in options.copies.split(",") if count]
        return {**index, "growth": run_growth(bench, corpus, copies, _say)} if copies else index
    _say(f"asking {len(corpus.questions)} questions")
    return {"index": index, "query": run_query(bench, corpus)}


def _embedder(name: str, *, threads: int) -> Embedder:
    if name == "hashed":
        from strata.providers.hashed.embedder import HashedEmbedder

        return HashedEmbedder()
    from strata.providers.onnx.embedder import OnnxEmbedder

    models = Path(os.environ.get("STRATA_MODEL_DIRECTORY", "").strip() or PROJECT / ".strata" / "models")
    return OnnxEmbedder.load(pull_minilm(models / "minilm", say=_say), threads=threads)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
