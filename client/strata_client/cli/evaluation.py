"""`strata eval`: measures retrieval on judged sets. The harness is the project's; the client alone has none."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from strata_client.cli.connecting import connect, data_directory
from strata_client.cli.options import Api, AsJson, Token
from strata_client.cli.screen import Screen
from strata_client.errors import ClientError

eval_app = typer.Typer(
    help="""Measure the quality of search on judged sets; make such sets.

    Example: strata eval synth ~/src/shop --out ~/sets/shop && strata eval run --data ~/sets/shop
    """,
    no_args_is_help=True,
)

Sets = Annotated[
    Path,
    typer.Option(
        "--data", metavar="DIR", help="A judged set (corpus.jsonl, queries.jsonl, qrels.tsv), or a folder of them."
    ),
]
Chosen = Annotated[str, typer.Option("--sets", help="Names with commas between; default: all in the folder.")]
EmbedderName = Annotated[
    str, typer.Option("--embedder", help="minilm (or onnx), e5 (multilingual), static (WordLlama).")
]
State = Annotated[
    Path | None, typer.Option("--state", metavar="DIR", help="Where models and vectors are kept; default: .strata.")
]


@eval_app.command()
def run(
    *,
    data: Sets,
    sets: Chosen = "",
    steps: Annotated[
        str,
        typer.Option(
            help="naive, bm25+rrf, weighing, names, features, structural, cross-encoder, rewrite, hyde, preamble; "
            "default: all. The last four use the models that STRATA_RERANKER… and STRATA_CHAT… name, and are skipped "
            "without."
        ),
    ] = "",
    embedder: EmbedderName = "onnx",
    layers: Annotated[str, typer.Option(help="Ask these layers only, say C0,D3; default: all.")] = "",
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Save nDCG@10 as a picture, .png or .svg.")] = None,
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """Climb the ladder: each step of the pipeline on the same questions, and whether it is worth its place.

    The files are indexed and asked in a Postgres of their own; vectors are kept between runs. A step is kept when the
    95 % bounds of its gain in nDCG@10, over the last step that was kept, are above 0; else it is dropped. With --json,
    one set prints one object, several print {"sets": [...]}; where a set brings chunks of its own, what was asked of
    those is under "given_chunks".

    Example: strata eval run --data ~/sets/scifact --json
    """
    running = _harness()
    from strata_eval.plotting import checked_plot, save_plot

    screen = Screen(as_json=as_json)
    home = data_directory(state)
    if plot is not None:
        checked_plot(plot)
    reports = running.run(
        data, sets=_names(sets), steps=_names(steps), embedder=embedder, layers=_names(layers),
        models=home / "models", cache=home / "eval", say=screen.note,
    )  # fmt: skip
    if plot is not None:
        save_plot(reports, plot)
        screen.note(f"The plot is in {plot}.")
    if as_json:
        screen.result(running.json_object(reports))
    else:
        _show(screen, reports)


@eval_app.command()
def train(
    *,
    data: Sets,
    sets: Chosen = "",
    embedder: EmbedderName = "onnx",
    write: Annotated[bool, typer.Option("--write", help="Put the weights into the package.")] = False,
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """Learn the weights of the reranker, and say what they are worth on sets that they were not learned from.

    Example: strata eval train --data ~/sets --write
    """
    running = _harness()
    screen = Screen(as_json=as_json)
    home = data_directory(state)
    report = running.run_training(
        data, sets=_names(sets), embedder=embedder, models=home / "models", cache=home / "eval", write=write,
        commit=_commit(), say=screen.note,
    )  # fmt: skip
    if as_json:
        screen.result(report)
        return
    for row in report["run"]["leave_one_set_out"]:
        change = row["difference"]
        screen.line(
            f"{row['set']:24} fusion {row['fusion']['ndcg@10']:.3f}  unseen {row['unseen']['ndcg@10']:.3f}  "
            f"{change['mean']:+.3f} ({change['low']:+.3f} to {change['high']:+.3f})"
        )
    for name, weight in report["weights"].items():
        screen.line(f"{name:24} {weight:+.3f}")


@eval_app.command()
def synth(
    folder: Annotated[
        Path | None, typer.Argument(help="The files to ask about; .gitignore is respected. Or name a --session.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the set goes.")],
    session: Annotated[str, typer.Option("--session", "-s", help="Ask about an indexed session's files.")] = "",
    most: Annotated[int, typer.Option(min=0, help="Questions from the files' own words at most.")] = 200,
    by_model: Annotated[
        int, typer.Option(min=0, help="Questions at most that the chat model writes, where STRATA_CHAT names one.")
    ] = 100,
    state: State = None,
    as_json: AsJson = False,
    api: Api = None,
    token: Token = None,
) -> None:
    """Make a judged set from headings, docstrings and frontmatter, for review by hand.

    The files are a folder's or those of a session that you may read. With a chat model configured (STRATA_CHAT…) it
    writes questions about passages too.

    Example: strata eval synth --session shop --out .strata/sets/shop
    """
    _harness()
    from strata_eval.optional_models import optional_chat
    from strata_eval.synth import write_synthetic

    screen = Screen(as_json=as_json)
    if (folder is None) == (not session):
        raise ClientError("Name a folder or a --session, one of the two.")
    if folder is not None:
        files = _files_of(folder, screen)
    else:
        with connect(api, token) as client:
            files = {file["path"]: file["text"] for file in client.files(session)}
    chat = optional_chat(data_directory(state) / "eval")
    sources = write_synthetic(files, out, most=most, chat=chat, most_by_model=by_model)
    questions = sum(sources.values())
    if chat is not None and by_model and "model" not in sources:
        screen.warn(
            "The chat model wrote no question that does not stand in a file: all come from the files' own words."
        )
    if as_json:
        screen.result({"set": str(out), "files": len(files), "questions": questions, "sources": sources})
    else:
        told = ", ".join(f"{count} by {source}" for source, count in sorted(sources.items()))
        screen.line(f"{questions} questions on {len(files)} files are in {out} ({told}).")
        screen.line(f"Read them, and then: strata eval run --data {out}")


def _files_of(folder: Path, screen: Screen) -> dict[str, str]:
    from strata_client.packing import FoundFile, walk

    files: dict[str, str] = {}
    for found in walk(folder, max_file_bytes=1_000_000):
        if isinstance(found, FoundFile):
            try:
                files[found.path] = found.content.decode("utf-8")
            except UnicodeDecodeError:
                screen.warn(f"{found.path} is not UTF-8: left out")
    return files


@eval_app.command()
def check(*, state: State = None, as_json: AsJson = False) -> None:
    """Measure the pipeline on the samples in `eval/samples`, and fail where it has become worse (`make eval`).

    Example: strata eval check --json
    """
    _harness()
    from strata_eval.regression import check as checked

    screen = Screen(as_json=as_json)
    home = data_directory(state)
    report = checked(models=home / "models", cache=home / "eval", say=screen.note)
    if as_json:
        screen.result(report)
    else:
        _show(screen, report["sets"])
    if report["faults"]:
        raise ClientError(f"Retrieval has become worse: {'; '.join(report['faults'])}.")


def _show(screen: Screen, reports: Sequence[Mapping[str, Any]]) -> None:
    from strata_eval.tables import ladder_table

    for number, table in enumerate(map(ladder_table, reports)):
        if number:
            screen.line()
        screen.line(table.title, style="bold")
        screen.table(table.columns, table.rows, headed=True)
        for note in table.notes:
            screen.line(note)


def _harness() -> ModuleType:
    try:
        from strata_eval import running
    except ModuleNotFoundError as error:
        raise ClientError(
            f"`strata eval` needs the project's packages ({error.name} is missing): run it in the project's folder, "
            "after `make run`."
        ) from error
    return running


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
