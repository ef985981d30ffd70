"""`strata bench`: index a corpus and ask it, on a Postgres and an S3 that are started for this run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from strata.errors import StrataError
from strata_bench.cloud import run_cloud
from strata_bench.corpus import PROJECT, Corpus, own_corpus, read_corpus
from strata_bench.embedders import EmbedderChoice
from strata_bench.given import commit_chunks, read_chunks
from strata_bench.index import run_growth, run_index
from strata_bench.plotting import growth_svg
from strata_bench.query import run_query
from strata_bench.scale import run_scale
from strata_bench.workbench import IDENTITY, SESSION, Workbench, workbench
from strata_local.errors import LocalCloudError

EXAMPLE = "Example: strata bench query --data DIR --json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Status 0, or 2 when it can't be measured."""
    options = _parser().parse_args(arguments)
    try:
        corpus = read_corpus(options.corpus) if options.corpus else own_corpus()
        copies = [int(count) for count in options.copies.split(",") if count]
        if options.what == "cloud":
            return _print(options, run_cloud(corpus, copies or [1], _say))
        model = EmbedderChoice(name=options.embedder, threads=options.threads)
        with workbench(_indexing_choice(model, options)) as bench:
            found = _measured(bench, corpus, model, options, copies)
            found = {"embedder": bench.embedder.model_id, **found}
    except (StrataError, LocalCloudError) as error:
        _say(str(error))
        return 2
    if options.what == "scale" and options.plot:
        _plot(options.plot, found)
    return _print(options, found)


def _print(options: argparse.Namespace, found: dict[str, Any]) -> int:
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    print(json.dumps({**machine, **found}, indent=None if options.json else 2))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="strata bench", description=__doc__, epilog=EXAMPLE)
    parser.add_argument(
        "what",
        nargs="?",
        choices=["all", "index", "query", "scale", "cloud"],
        default="all",
        help="index: files and chunks a second, embedding apart; query: against plain SQL on the same rows; "
        "all: both, with the embedder's work; scale: growth with the number of chunks; cloud: one changed file through "
        "the whole local cloud",
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
    parser.add_argument("--chunks", type=Path, help="query: over these chunks (JSON Lines: path, text) as one layer")
    parser.add_argument("--cache", type=Path, default=PROJECT / ".strata" / "eval", help="where vectors are kept")
    parser.add_argument("--copies", default="", help="index, cloud: so many copies of the corpus, say 1,4,16")
    parser.add_argument("--sizes", default="1000,10000,100000", help="scale: chunks in one session")
    parser.add_argument("--sessions", default="", help="scale: so many sessions of 1,000 chunks, say 1,30,1000")
    parser.add_argument("--churn", type=int, default=100, help="scale: commits of three files at the greatest size")
    parser.add_argument(
        "--plot", type=Path, help="scale: draw the growth into this SVG file; of sessions into NAME-sessions.svg"
    )
    parser.add_argument("--bulk", action="store_true", help="scale: write the rows by COPY, for very many")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    return parser


def _indexing_choice(model: EmbedderChoice, options: argparse.Namespace) -> EmbedderChoice:
    """Where the embedder's own work is not measured, a text is embedded once and its vector kept for the next run."""
    if options.what == "index" and not options.embed:
        return replace(model, is_looked_up=True)
    if options.what in ("query", "scale") and options.embedder == "onnx":
        return replace(model, cache=options.cache)
    return model


def _measured(
    bench: Workbench, corpus: Corpus, model: EmbedderChoice, options: argparse.Namespace, copies: Sequence[int]
) -> dict[str, Any]:
    if options.what == "scale":
        sizes = [int(size) for size in options.sizes.split(",") if size]
        sessions = [int(count) for count in options.sessions.split(",") if count]
        return run_scale(
            bench,
            corpus,
            bench.embedder,
            sizes=sizes,
            sessions=sessions,
            churn=options.churn,
            bulk=options.bulk,
            say=_say,
        )
    if options.what == "query" and options.chunks:
        chunks = read_chunks(options.chunks)
        _say(f"storing {len(chunks)} chunks of {options.chunks.name}")
        commit_chunks(
            SESSION, IDENTITY.tenant, chunks, sessions=bench.sessions, cache=bench.cache, embedder=bench.embedder
        )
        return _asked(bench, corpus, model)
    _say(f"indexing {len(corpus.files)} files of {corpus.name}")
    if options.what == "query":
        with bench.worker() as worker:
            bench.snapshot(worker, corpus.files.items())
        return _asked(bench, corpus, model)
    index = run_index(bench, corpus)
    if options.what == "index":
        return {**index, "growth": run_growth(bench, corpus, copies, _say)} if copies else index
    return {"index": index, "query": _asked(bench, corpus, model)}


def _asked(bench: Workbench, corpus: Corpus, model: EmbedderChoice) -> dict[str, Any]:
    _say(f"asking {len(corpus.questions)} questions")
    return run_query(bench, corpus, model.load())


def _plot(path: Path, found: dict[str, Any]) -> None:
    if found["sizes"]:
        path.write_text(growth_svg(found["sizes"], of="rows"), encoding="utf-8")
    if found["sessions"]:
        beside = path.with_name(f"{path.stem}-sessions{path.suffix}")
        beside.write_text(growth_svg(found["sessions"], of="sessions"), encoding="utf-8")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
