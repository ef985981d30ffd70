"""`strata sessions`: those that the caller may read; deleting one."""

from __future__ import annotations

from typing import Annotated

import typer

from strata_client.cli.connecting import connect
from strata_client.cli.groups import ListGroup
from strata_client.cli.options import Api, AsJson, Token
from strata_client.cli.screen import Screen

sessions_app = typer.Typer(
    cls=ListGroup,
    help="""Sessions: list those that you may read, delete one.

    Example: strata sessions
    """,
    no_args_is_help=False,
)


@sessions_app.command("list")
def sessions(as_json: AsJson = False, api: Api = None, token: Token = None) -> None:
    """List the sessions that you may read.

    Example: strata sessions --json
    """
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        found = client.sessions()
    if as_json:
        screen.result(found)
        return
    screen.table(
        ("session", "project", "owner", "generation", "embedding model"),
        [
            (view["session_id"], view["project_id"], view["owner"], str(view["generation"]), view["embedding_model"])
            for view in found
        ],
    )
    if not found:
        screen.note("No sessions yet; make one with `strata index PATH --session NAME`.")


@sessions_app.command("delete")
def delete(
    name: Annotated[str, typer.Argument(help="The session.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do it: there is no way back.")] = False,
    as_json: AsJson = False,
    api: Api = None,
    token: Token = None,
) -> None:
    """Delete a session with its index, its jobs and its uploads.

    Example: strata sessions delete shop --yes
    """
    if not yes:
        raise typer.BadParameter("this can't be undone; say --yes", param_hint="--yes")
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        client.delete_session(name)
    if as_json:
        screen.result({"session_id": name, "deleted": True})
    else:
        screen.line(f"{name} is deleted.")
