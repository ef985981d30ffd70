"""The commands around the local cloud and a deployment: up, down, status, model pull, token, migrate."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from strata_client.cli.connecting import DEFAULT_PORT, connect, data_directory, hint
from strata_client.cli.options import Api, AsJson, Data, Port, Token
from strata_client.cli.screen import Screen
from strata_client.errors import ClientError

if TYPE_CHECKING:
    from strata_local.up import LocalCloud

_NOTICE_S = 0.5

model_app = typer.Typer(
    help="""The embedding models of the local cloud.

    Example: strata model pull minilm
    """,
    no_args_is_help=True,
)


def up(port: Port = DEFAULT_PORT, data: Data = None, as_json: AsJson = False) -> None:
    """Start the local cloud and serve its API until Ctrl-C.

    Postgres, S3 and DynamoDB run on this machine, the functions in processes of their own; nothing leaves it. The
    data stays in .strata. Where Postgres can't be started from its wheel, STRATA_DATABASE_URL names another one.

    Example: strata up --port 8080
    """
    screen = Screen(as_json=as_json)
    with local_cloud(screen, data_directory(data), port) as cloud:
        if as_json:
            screen.result({"api_url": cloud.api_url, "data_directory": str(data_directory(data)), "pid": os.getpid()})
        else:
            screen.line(f"Serving at {cloud.api_url}; Ctrl-C stops it. In another terminal:")
            screen.line(f"  {hint('index', cloud.api_url)} . --session mine")
            screen.line(f'  {hint("ask", cloud.api_url)} "What is this project for?" --session mine')
        serve()


@contextmanager
def local_cloud(screen: Screen, data: Path, port: int) -> Iterator[LocalCloud]:
    """A running local cloud with a warm query function.

    Its processes end with the block, also when this one is interrupted or asked to terminate; once it is ending, a
    further Ctrl-C does not cut that short.
    """
    from strata_local.up import LocalCloud

    if (model := chosen_model(os.environ)) is not None:
        ensure_model(screen, data, model)
    screen.note(f"Starting the local cloud in {data} …")
    with _terminable():
        cloud = LocalCloud(data, port=port, report=screen.note)
        try:
            cloud.start()
            cloud.warm()
            yield cloud
        finally:
            with _handled(signal.SIGINT, signal.SIG_IGN):
                cloud.stop()


def serve() -> None:
    """Wait for Ctrl-C or for a request to terminate.

    Python runs a signal's handler between two steps of its own. A signal that comes after the last of them and before
    a wait without end begins would never be noticed, so this wait is one of many short ones.
    """
    while True:
        time.sleep(_NOTICE_S)


def _terminable() -> AbstractContextManager[None]:
    """SIGTERM (`strata down`, a supervisor) unwinds the stack as Ctrl-C does, and is a success."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    return _handled(signal.SIGTERM, stop)


@contextmanager
def _handled(
    number: signal.Signals, handler: Callable[[int, FrameType | None], None] | signal.Handlers
) -> Iterator[None]:
    """The signal goes to this handler during the block."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def down(
    wipe: Annotated[bool, typer.Option("--wipe", help="Also remove the data: sessions, cache, model.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Stop the local cloud that runs on the data, wherever it was started.

    Example: strata down --wipe
    """
    from strata_local.running import down as stop

    screen = Screen(as_json=as_json)
    folder = data_directory(data)
    stopped = stop(folder, wipe=wipe)
    if as_json:
        screen.result({"stopped": stopped, "wiped": wipe, "data_directory": str(folder)})
    else:
        screen.line(("Stopped." if stopped else "Nothing was running.") + (f" {folder} is gone." if wipe else ""))


def status(as_json: AsJson = False, api: Api = None, token: Token = None) -> None:
    """Say whether the API answers, and which version it is.

    Example: strata status --api https://strata.example.com
    """
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        started = time.perf_counter()
        health = client.health()
        latency_ms = (time.perf_counter() - started) * 1000
    if as_json:
        screen.result({"api_url": client.api_url, **health, "latency_ms": round(latency_ms, 1)})
    else:
        screen.line(f"{client.api_url}: {health.get('status')}, version {health.get('version')}, {latency_ms:.0f} ms")


def chosen_model(environment: Mapping[str, str]) -> str | None:
    """The model that the local cloud's functions will load, if it is one that can be pulled.

    >>> chosen_model({}), chosen_model({"STRATA_EMBEDDER": "e5"}), chosen_model({"STRATA_EMBEDDER": "hashed"})
    ('minilm', 'e5', None)
    """
    from strata.settings.model import DEFAULT_MODELS
    from strata_local.models import PULLS

    default = DEFAULT_MODELS.get(environment.get("STRATA_EMBEDDER", "").strip() or "onnx")
    model = environment.get("STRATA_EMBEDDER_MODEL", "").strip() or default
    return model if default is not None and model in PULLS else None


def ensure_model(screen: Screen, data: Path, name: str) -> Path:
    """The embedding model's folder, made if it is not there."""
    from strata_local.models import PULLS

    if name not in PULLS:
        raise ClientError(f"There is no model {name!r} to pull; those that there are: {', '.join(sorted(PULLS))}.")
    return PULLS[name](data / "models" / name, say=screen.note)


@model_app.command()
def pull(
    name: Annotated[str, typer.Argument(help="The model: minilm, e5 (multilingual) or wordllama.")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Fetch an embedding model and convert it for this machine; does nothing when it is there.

    Example: strata model pull minilm
    """
    screen = Screen(as_json=as_json)
    target = ensure_model(screen, data_directory(data), name)
    if as_json:
        screen.result({"model": name, "directory": str(target)})
    else:
        screen.line(f"The model is in {target}.")


def token(
    *,
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="Who the token speaks for.")],
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="A group of theirs; may be repeated.", show_default=False),
    ] = None,
    tenant: Annotated[str, typer.Option("--tenant", metavar="NAME", help="Whose data.")] = "local",
    hours: Annotated[float, typer.Option("--hours", min=0.01, max=24 * 365, help="How long it is good for.")] = 12,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Make a development token for the local cloud; a deployed one does not accept it.

    Example: STRATA_TOKEN=$(strata token --user ann --group writers) strata sessions
    """
    from strata_local.tokens import dev_token

    expires_at = datetime.now(UTC) + timedelta(hours=hours)
    signed = dev_token(
        data_directory(data),
        user,
        tenant=tenant,
        groups=group or (),
        scopes=("internal",),
        expires_in_s=int(hours * 3600),
    )
    screen = Screen(as_json=as_json)
    if as_json:
        screen.result({"token": signed, "expires_at": expires_at.isoformat(timespec="seconds")})
    else:
        screen.line(signed)


def migrate(as_json: AsJson = False) -> None:
    """Bring a deployment's database to this version.

    A step of each deploy; `strata up` does it for the local cloud's. STRATA_OWNER_DATABASE_URL names the database as
    its owner. STRATA_INDEX_PASSWORD and STRATA_QUERY_PASSWORD, where given, become the passwords of the two roles that
    the functions connect as.

    Example: STRATA_OWNER_DATABASE_URL=postgresql://owner@db.example.com/strata strata migrate
    """
    from strata.storage.postgres.migrate import ROLES
    from strata.storage.postgres.migrate import migrate as apply_migrations

    url = os.environ.get("STRATA_OWNER_DATABASE_URL", "").strip()
    if not url:
        raise ClientError("STRATA_OWNER_DATABASE_URL is not set; it names the database as its owner.")
    given = {role: os.environ.get(f"{role.upper()}_PASSWORD", "") for role in ROLES}
    applied = apply_migrations(url, passwords={role: password for role, password in given.items() if password})
    screen = Screen(as_json=as_json)
    if as_json:
        screen.result({"applied": applied})
    else:
        screen.line("\n".join(f"Applied {name}." for name in applied) or "Nothing to apply.")
