"""`strata bench`: measures speed. The benchmarks are the project's; the client alone has none."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import typer

from strata_client.cli.connecting import data_directory
from strata_client.cli.options import AsJson
from strata_client.cli.screen import Screen
from strata_client.errors import ClientError

bench_app = typer.Typer(
    help="""Measure speed on this machine: indexing, asking, growth, one changed file.

    Postgres and S3 are started for the run alone; the figures hold for the machine and its load, which are told with
    them.

    Example: strata bench query --data ~/sets/scifact
    """,
    no_args_is_help=True,
)

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="A corpus: a folder with corpus.jsonl and queries.jsonl; this project if not given.",
        show_default=False,
    ),
]
EmbedderName = Annotated[
    Literal["onnx", "minilm", "e5", "static", "hashed"],
    typer.Option(
        "--embedder", help="MiniLM by either name, the multilingual E5, WordLlama, or one that costs no time."
    ),
]
Threads = Annotated[int, typer.Option("--threads", min=0, help="The embedder's threads; 0: one a core.")]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache", metavar="DIR", help="Where vectors are kept; `.strata/eval` if not given.", show_default=False
    ),
]
Copies = Annotated[
    str,
    typer.Option("--copies", metavar="N,N,…", help="So many copies of the corpus, say 1,4,16.", show_default=False),
]


@bench_app.command()
def index(
    *,
    data: Data = None,
    embedder: EmbedderName = "onnx",
    threads: Threads = 0,
    embed: Annotated[
        bool, typer.Option("--embed", help="With the embedder's work, in place of stored vectors.")
    ] = False,
    copies: Copies = "",
    as_json: AsJson = False,
) -> None:
    """Measure files and chunks a second, from nothing to a searchable commit; memory; one changed file.

    Every file is parsed; the embedder's work is left out unless --embed is given. With --copies the growth of time and
    memory with the number of files, and its exponent.

    Example: strata bench index --data ~/sets/django --copies 1,4,16 --json
    """
    screen = Screen(as_json=as_json)
    _show(
        screen,
        _benchmarks().measure_index(
            data, embedder=embedder, threads=threads, embeds=embed, copies=_numbers(copies, "--copies"), say=screen.note
        ),
    )


@bench_app.command()
def query(
    *,
    data: Data = None,
    embedder: EmbedderName = "onnx",
    threads: Threads = 0,
    chunks: Annotated[
        Path | None,
        typer.Option(
            "--chunks",
            metavar="FILE",
            help="Ask these chunks as one layer (JSON Lines: path, text), say another splitter's.",
            show_default=False,
        ),
    ] = None,
    cache: Cache = None,
    as_json: AsJson = False,
) -> None:
    """Measure searches, beside plain `ORDER BY embedding <=> …` over the same rows in the same run.

    `p50_ms` and `p95_ms` are those of a whole search without the question's embedding, `ratio` is over plain SQL.

    Example: strata bench query --data ~/sets/django --json
    """
    screen = Screen(as_json=as_json)
    _show(
        screen,
        _benchmarks().measure_query(
            data, embedder=embedder, threads=threads, chunks=chunks, cache=_cache(cache), say=screen.note
        ),
    )


@bench_app.command()
def scale(
    *,
    data: Data = None,
    embedder: EmbedderName = "onnx",
    threads: Threads = 0,
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="N,N,…", help="Chunks in one session.")
    ] = "1000,10000,100000",
    sessions: Annotated[
        str,
        typer.Option(
            "--sessions", metavar="N,N,…", help="So many sessions of 1,000 chunks, say 1,30,1000.", show_default=False
        ),
    ] = "",
    churn: Annotated[int, typer.Option("--churn", min=0, help="Commits of three files at the greatest size.")] = 100,
    bulk: Annotated[bool, typer.Option("--bulk", help="Write the rows by COPY, for very many.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw the growth into this SVG file; that of sessions into NAME-sessions.svg.",
            show_default=False,
        ),
    ] = None,
    cache: Cache = None,
    as_json: AsJson = False,
) -> None:
    """Measure how time and recall grow with a session's chunks, and with the number of sessions.

    The rows are perturbed copies of the corpus' own. Recall is against an exact search, under filters that keep all,
    a tenth, a hundredth and a thousandth of the rows.

    Example: strata bench scale --data ~/sets/django --sizes 1000,100000 --plot growth.svg
    """
    screen = Screen(as_json=as_json)
    _show(
        screen,
        _benchmarks().measure_scale(
            data,
            embedder=embedder,
            threads=threads,
            cache=_cache(cache),
            sizes=_numbers(sizes, "--sizes"),
            sessions=_numbers(sessions, "--sessions"),
            churn=churn,
            bulk=bulk,
            plot=_svg(plot),
            say=screen.note,
        ),
    )


@bench_app.command()
def cloud(*, data: Data = None, copies: Copies = "", as_json: AsJson = False) -> None:
    """Measure one changed file through the whole local cloud, from the request to the answer that shows it.

    Example: strata bench cloud --data ~/sets/django --copies 1,16
    """
    screen = Screen(as_json=as_json)
    _show(screen, _benchmarks().measure_cloud(data, copies=_numbers(copies, "--copies"), say=screen.note))


@bench_app.command("all")
def both(*, data: Data = None, embedder: EmbedderName = "onnx", threads: Threads = 0, as_json: AsJson = False) -> None:
    """Measure indexing and asking in one run, both with the embedder's work.

    Example: strata bench all
    """
    screen = Screen(as_json=as_json)
    _show(screen, _benchmarks().measure_all(data, embedder=embedder, threads=threads, say=screen.note))


def _benchmarks() -> ModuleType:
    try:
        from strata_bench import measuring
    except ModuleNotFoundError as error:
        raise ClientError(
            f"`strata bench` needs the project's packages ({error.name} is missing): run it in the project's folder, "
            "after `make run`."
        ) from error
    return measuring


def _show(screen: Screen, found: dict[str, Any]) -> None:
    if screen.as_json:
        screen.result(found)
    else:
        screen.write(json.dumps(found, indent=2) + "\n")


def _cache(given: Path | None) -> Path:
    return given or data_directory(None) / "eval"


def _numbers(text: str, option: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"{text!r} is no list of numbers like 1,4,16", param_hint=option)
    return [int(part) for part in parts]


def _svg(path: Path | None) -> Path | None:
    if path is not None and (path.suffix.lower() != ".svg" or not path.absolute().parent.is_dir()):
        raise typer.BadParameter(f"{path} is no SVG file in a folder that is there", param_hint="--plot")
    return path
