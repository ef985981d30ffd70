"""`strata`: the application, and how its errors are told."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import typer
from typer.main import get_command

from strata_client.cli import asking, benching, cloud, evaluation, jobs, sessions, writing
from strata_client.cli.demo import demo
from strata_client.cli.help_texts import made_readable
from strata_client.cli.screen import Screen
from strata_client.errors import ApiUnreachable, ClientError, StrataApiError
from strata_client.retrying import is_loopback

INTERRUPTED = 130

app = typer.Typer(
    name="strata",
    help="""Ask a code base and its documents; get answers with citations that can be checked.

    Example: strata ask "Where is the retry delay set?" --session shop
    """,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
START, READ, WRITE, CLOUD, MEASURE = "Start here", "Ask", "Index", "The local cloud and deployments", "Measure"

app.command(rich_help_panel=START)(demo)
app.command(rich_help_panel=READ)(asking.ask)
app.command(rich_help_panel=READ)(asking.search)
app.command(rich_help_panel=READ)(asking.links)
app.command(rich_help_panel=READ)(asking.drift)
app.command(rich_help_panel=WRITE)(writing.index)
app.command(rich_help_panel=WRITE)(writing.rollback)
app.add_typer(jobs.jobs_app, name="jobs", rich_help_panel=WRITE)
app.add_typer(sessions.sessions_app, name="sessions", rich_help_panel=WRITE)
app.command(rich_help_panel=CLOUD)(cloud.up)
app.command(rich_help_panel=CLOUD)(cloud.down)
app.command(rich_help_panel=CLOUD)(cloud.status)
app.command(rich_help_panel=CLOUD)(cloud.token)
app.command(rich_help_panel=CLOUD)(cloud.migrate)
app.add_typer(cloud.model_app, name="model", rich_help_panel=CLOUD)
app.add_typer(evaluation.eval_app, name="eval", rich_help_panel=MEASURE)
app.add_typer(benching.bench_app, name="bench", rich_help_panel=MEASURE)


def command() -> Any:
    """The whole command, with help texts that fit any terminal."""
    return made_readable(get_command(app))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status: 0, 1 for an error (one red sentence on stderr), 2 for wrong usage."""
    try:
        command().main(args=None if arguments is None else list(arguments), prog_name="strata")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("STRATA_DEBUG") == "1":
            traceback.print_exc()
        Screen().fail(sentence(error))
        return 1
    return 0


def sentence(error: Exception) -> str:
    """What happened and what to do about it."""
    match error:
        case ApiUnreachable() if is_loopback(error.url):
            return f"Nothing answers at {error.url}; start it with `strata up`."
        case ApiUnreachable():
            return f"Nothing answers at {error.url} ({error.reason}); check the address and the network."
        case StrataApiError(status=401):
            return f"{error.message} Give a token with --token or STRATA_TOKEN."
        case StrataApiError(code="session_not_found"):
            return f"{error.message} `strata sessions` lists yours."
        case StrataApiError(code="job_not_found"):
            return f"{error.message} `strata jobs` lists yours."
        case ClientError():
            return error.message
        case ModuleNotFoundError():
            return (
                f"This command needs the local cloud's packages ({error.name} is missing); "
                "in the project's folder, `make run` installs them."
            )
        case _ if _is_told_by_strata(error):
            return str(error)
        case _:
            return f"{type(error).__name__}: {error} (STRATA_DEBUG=1 shows where.)"


def _is_told_by_strata(error: Exception) -> bool:
    """Whether the error's text is a sentence for a person. Looks only at what is loaded: the server's packages may
    be absent, and then none of their errors can have come.
    """
    trees = (("strata.errors", "StrataError"), ("strata_local.errors", "LocalCloudError"))
    return any(isinstance(error, getattr(sys.modules[module], name)) for module, name in trees if module in sys.modules)


def run() -> None:
    """The entry point."""
    sys.exit(main())
