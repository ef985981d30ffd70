"""`strata demo`: the whole path once, from a folder to a cited answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from strata_client.cli.answers import Timings, show_answer
from strata_client.cli.cloud import local_cloud, serve
from strata_client.cli.connecting import DEFAULT_PORT, data_directory, hint, local_api_url, project_root
from strata_client.cli.options import Api, AsJson, Data, Port, Token
from strata_client.cli.progress import JobBar, show_outcome
from strata_client.cli.questions import DEFAULT_QUESTION, OTHER_EXAMPLES, OTHER_QUESTION, OWN_EXAMPLES
from strata_client.cli.screen import Screen
from strata_client.cli.writing import require_done
from strata_client.client import StrataClient
from strata_client.errors import ApiUnreachable
from strata_client.indexing import IndexedFolder, index_folder, name_from
from strata_client.retrying import RetryPolicy
from strata_client.wire import AnswerView


def demo(
    *,
    path: Annotated[
        Path | None, typer.Argument(help="The project's folder; this repository if not given.", show_default=False)
    ] = None,
    question: Annotated[
        str | None, typer.Option("--question", "-q", metavar="TEXT", help="What to ask.", show_default=False)
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session", "-s", metavar="NAME", help="The session; else named by the folder.", show_default=False
        ),
    ] = None,
    once: Annotated[
        bool | None,
        typer.Option("--once/--keep", help="End after the answer, or keep serving (only --json ends by itself)."),
    ] = None,
    port: Port = DEFAULT_PORT,
    data: Data = None,
    as_json: AsJson = False,
    api: Api = None,
    token: Token = None,
) -> None:
    """Index a folder through S3, watch the job, ask a question, read the cited answer.

    Uses the local cloud that runs, or starts one and keeps it serving until Ctrl-C.

    Example: strata demo ~/src/shop --question "How is a refund booked?" --once
    """
    screen = Screen(as_json=as_json)
    root = path or project_root()
    name = session or ("demo" if path is None else f"demo-{name_from(root)}")
    asked = question or (DEFAULT_QUESTION if path is None else OTHER_QUESTION)
    with _cloud(screen, data_directory(data), port, api, token) as (client, started_here):
        with JobBar(screen) as bar:
            indexed = index_folder(client, root, name, watcher=bar)
        show_outcome(screen, indexed)
        require_done(indexed.job)
        client.retrieve(name, "warm up", limit=1)
        screen.note(f"Question: {asked}")
        answer, timings = show_answer(screen, name, client.ask(name, asked))
        screen.note(_timings_text(timings))
        if as_json:
            screen.result(demo_view(indexed, answer, timings))
        keep = not once if once is not None else not as_json
        if not as_json:
            tried = OWN_EXAMPLES if path is None else OTHER_EXAMPLES
            _say_what_next(screen, client.api_url, name, tried, serving=keep or not started_here)
        if keep and started_here:
            serve()


@contextmanager
def _cloud(
    screen: Screen, data: Path, port: int, api: str | None, token: str | None
) -> Iterator[tuple[StrataClient, bool]]:
    """A client for the API that was named or that runs on this data, or for a cloud started here (then True)."""
    with ExitStack() as stack:
        url, started_here = api or _answering(data), False
        if url is None:
            url, started_here = stack.enter_context(local_cloud(screen, data, port)).api_url, True
        else:
            screen.note(f"Using the cloud at {url}.")
        yield stack.enter_context(StrataClient(url, token)), started_here


def _answering(data: Path) -> str | None:
    """The address of the cloud that runs on this data, if it really answers."""
    url = local_api_url(data)
    if url is None:
        return None
    try:
        with StrataClient(url, retry=RetryPolicy(attempts=1)) as client:
            client.health()
    except ApiUnreachable:
        return None
    return url


def demo_view(indexed: IndexedFolder, answer: AnswerView, timings: Timings) -> dict[str, object]:
    """The one object of `strata demo --json`."""
    job, text = indexed.job, answer["answer"]
    return {
        "job": {
            "id": job["job_id"],
            "status": job["status"],
            "counters": job["counters"],
            "seconds": round(indexed.seconds, 3),
        },
        "answer": {
            "text": text["text"],
            "citations": [
                {"n": each["n"], "path": each["path"], "lines": each["lines"], "quote": each["quote"]}
                for each in text["citations"]
            ],
            "grounded": text["grounded"],
        },
        "timings": {
            "sources_ms": _rounded(timings.sources_ms),
            "first_delta_ms": _rounded(timings.first_delta_ms),
            "total_ms": _rounded(timings.total_ms),
        },
        "chunks": job["chunks"],
    }


def _rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 1)


def _timings_text(timings: Timings) -> str:
    parts = [
        f"{what} after {milliseconds:.0f} ms"
        for what, milliseconds in (
            ("sources", timings.sources_ms),
            ("first words", timings.first_delta_ms),
            ("all", timings.total_ms),
        )
        if milliseconds is not None
    ]
    return ", ".join(parts).capitalize() + "."


def _say_what_next(screen: Screen, api_url: str, session: str, examples: tuple[str, str], *, serving: bool) -> None:
    screen.line()
    if not serving:
        screen.line("Try next: `make run`, which keeps serving; or `strata up`.")
        return
    screen.line(f"Serving at {api_url}. Try next, in another terminal:")
    screen.line(f'  {hint("ask", api_url)} "{examples[0]}" --session {session}')
    screen.line(f'  {hint("search", api_url)} "{examples[1]}" --session {session}')
    screen.line(f"  {hint('index', api_url)} PATH --session mine")
