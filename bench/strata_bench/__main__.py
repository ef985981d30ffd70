"""`python -m strata_bench`: index a corpus and ask it, on a Postgres and an S3 that are started for this run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from strata.errors import StrataError
from strata.ports import Embedder
from strata_bench.corpus import PROJECT, own_corpus, read_corpus
from strata_bench.index import run_index
from strata_bench.query import run_query
from strata_bench.workbench import workbench
from strata_local.errors import LocalCloudError
from strata_local.models import pull_minilm


def main(arguments: Sequence[str] | None = None) -> int:
    """Status 0, or 2 when it can't be measured."""
    parser = argparse.ArgumentParser(prog="python -m strata_bench", description=__doc__)
    parser.add_argument(
        "--corpus", type=Path, help="a folder with corpus.jsonl and queries.jsonl; default: this project"
    )
    parser.add_argument("--embedder", choices=["onnx", "hashed"], default="onnx", help="`hashed` costs no time")
    parser.add_argument("--threads", type=int, default=0, help="threads of the embedder; 0: one a core")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args(arguments)
    try:
        corpus = read_corpus(options.corpus) if options.corpus else own_corpus()
        embedder = _embedder(options.embedder, threads=options.threads)
        with workbench(embedder) as bench:
            _say(f"indexing {len(corpus.files)} files of {corpus.name}")
            index = run_index(bench, corpus)
            _say(f"asking {len(corpus.questions)} questions")
            query = run_query(bench, corpus)
    except (StrataError, LocalCloudError) as error:
        _say(str(error))
        return 2
    found = {"embedder": embedder.model_id, "cores": os.cpu_count(), "index": index, "query": query}
    print(json.dumps(found, indent=None if options.json else 2))
    return 0


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
