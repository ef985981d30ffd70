"""What `strata bench` measures: each a corpus indexed or asked on a Postgres and an S3 started for this run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from strata.errors import ConfigurationError
from strata_bench.cloud import run_cloud
from strata_bench.corpus import Corpus, own_corpus, read_corpus
from strata_bench.embedders import EmbedderChoice
from strata_bench.given import commit_chunks, read_chunks
from strata_bench.index import run_growth, run_index
from strata_bench.plotting import growth_svg
from strata_bench.query import run_query
from strata_bench.scale import run_scale
from strata_bench.workbench import IDENTITY, SESSION, Workbench, workbench

Say = Callable[[str], None]


def measure_index(
    data: Path | None, *, embedder: str, threads: int, embeds: bool, copies: Sequence[int], say: Say
) -> dict[str, Any]:
    """Files and chunks a second; unless it `embeds`, a text's vector is looked up in place of the embedder's work."""
    corpus = _corpus(data, say)
    with workbench(EmbedderChoice(name=embedder, threads=threads, is_looked_up=not embeds)) as bench:
        say(f"indexing {len(corpus.files)} files of {corpus.name}")
        found = run_index(bench, corpus)
        if copies:
            found = {**found, "growth": run_growth(bench, corpus, copies, say)}
        return _told(found, bench)


def measure_query(
    data: Path | None, *, embedder: str, threads: int, chunks: Path | None, cache: Path, say: Say
) -> dict[str, Any]:
    """Searches against plain SQL over the same rows: the corpus' own, or the `chunks` of a file as one layer."""
    corpus = _corpus(data, say, asks=True)
    choice = _cached(embedder, threads, cache)
    with workbench(choice) as bench:
        if chunks:
            given = read_chunks(chunks)
            say(f"storing {len(given)} chunks of {chunks.name}")
            commit_chunks(
                SESSION, IDENTITY.tenant, given, sessions=bench.sessions, cache=bench.cache, embedder=bench.embedder
            )
        else:
            say(f"indexing {len(corpus.files)} files of {corpus.name}")
            with bench.worker() as worker:
                bench.snapshot(worker, corpus.files.items())
        return _told(_asked(bench, corpus, choice, say), bench)


def measure_all(data: Path | None, *, embedder: str, threads: int, say: Say) -> dict[str, Any]:
    """Indexing and asking, both with the embedder's work."""
    corpus = _corpus(data, say, asks=True)
    choice = EmbedderChoice(name=embedder, threads=threads)
    with workbench(choice) as bench:
        say(f"indexing {len(corpus.files)} files of {corpus.name}")
        index = run_index(bench, corpus)
        return _told({"index": index, "query": _asked(bench, corpus, choice, say)}, bench)


def measure_scale(
    data: Path | None,
    *,
    embedder: str,
    threads: int,
    cache: Path,
    sizes: Sequence[int],
    sessions: Sequence[int],
    churn: int,
    bulk: bool,
    plot: Path | None,
    say: Say,
) -> dict[str, Any]:
    """Searches at each of the sizes of one session, and at each number of sessions; `plot` is an SVG file."""
    corpus = _corpus(data, say, asks=True)
    with workbench(_cached(embedder, threads, cache)) as bench:
        found = run_scale(
            bench, corpus, bench.embedder, sizes=sizes, sessions=sessions, churn=churn, bulk=bulk, say=say
        )
        if plot:
            _plot(plot, found)
        return _told(found, bench)


def measure_cloud(data: Path | None, *, copies: Sequence[int], say: Say) -> dict[str, Any]:
    """One changed file through the whole local cloud, in a session of each so many copies of the corpus."""
    return {**_machine(), **run_cloud(_corpus(data, say), copies or [1], say)}


def _corpus(data: Path | None, say: Say, *, asks: bool = False) -> Corpus:
    """Raises `ConfigurationError`, also for a corpus without a question where it `asks`."""
    corpus = read_corpus(data) if data else own_corpus()
    if asks and not corpus.questions:
        raise ConfigurationError(f"No question of {corpus.name} holds a word to search for.")
    if corpus.refused:
        say(f"{len(corpus.refused)} files are left out: no upload may hold a path like {corpus.refused[0][:120]!r}")
    return corpus


def _cached(embedder: str, threads: int, cache: Path) -> EmbedderChoice:
    return EmbedderChoice(name=embedder, threads=threads, cache=None if embedder == "hashed" else cache)


def _asked(bench: Workbench, corpus: Corpus, choice: EmbedderChoice, say: Say) -> dict[str, Any]:
    say(f"asking {len(corpus.questions)} questions")
    return run_query(bench, corpus, choice.load())


def _told(found: dict[str, Any], bench: Workbench) -> dict[str, Any]:
    return {**_machine(), "embedder": bench.embedder.model_id, **found}


def _machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}


def _plot(path: Path, found: dict[str, Any]) -> None:
    if found["sizes"]:
        path.write_text(growth_svg(found["sizes"], of="rows"), encoding="utf-8")
    if found["sessions"]:
        beside = path.with_name(f"{path.stem}-sessions{path.suffix}")
        beside.write_text(growth_svg(found["sessions"], of="sessions"), encoding="utf-8")
