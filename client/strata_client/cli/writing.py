"""The commands that change a session's index: `strata index` and `strata rollback`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata_client.cli.connecting import connect, hint
from strata_client.cli.options import Api, AsJson, Session, Token
from strata_client.cli.progress import JobBar, show_outcome
from strata_client.cli.screen import Screen
from strata_client.errors import ClientError
from strata_client.indexing import IndexedFolder, index_folder
from strata_client.wire import JobView


def index(
    *,
    path: Annotated[Path, typer.Argument(help="The project's folder.")],
    session: Session,
    reindex: Annotated[
        bool, typer.Option("--reindex", help="Build a new index beside the one that answers meanwhile.")
    ] = False,
    as_json: AsJson = False,
    api: Api = None,
    token: Token = None,
) -> None:
    """Make a session's index equal to a folder.

    Files that .gitignore or .strataignore leave out stay here, and so do links, secrets by name and version control
    data. What has been indexed before is not embedded again. With --reindex everything goes into a new index, also
    where another embedding model is in use now; `strata rollback` goes back to the one before.

    Example: strata index ~/src/shop --session shop
    """
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        with JobBar(screen) as bar:
            indexed = index_folder(client, path, session, watcher=bar, reindex=reindex)
        show_outcome(screen, indexed)
        if as_json:
            screen.result(indexed_view(indexed))
        require_done(indexed.job)
        if not as_json:
            screen.line(f'Indexed. Ask: {hint("ask", api)} "…" --session {session}')


def rollback(session: Session, as_json: AsJson = False, api: Api = None, token: Token = None) -> None:
    """Go back to a session's index before the present one; a second time undoes that.

    Only a new index leaves one behind: `strata index --reindex`, a large snapshot, or another embedding model.

    Example: strata rollback --session shop
    """
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        job = client.wait_for(client.roll_back(session)["job_id"])
    if as_json:
        screen.result(job)
    require_done(job)
    if not as_json:
        screen.line(f"Rolled back: {job['chunks']} chunks, generation {job['generation']}.")


def indexed_view(indexed: IndexedFolder) -> dict[str, object]:
    return {
        "session": indexed.session,
        "job": indexed.job,
        "seconds": round(indexed.seconds, 3),
        "packed": {"files": indexed.files, "archive_bytes": indexed.archive_bytes},
        "skipped_here": list(indexed.skipped_here),
    }


def require_done(job: JobView) -> None:
    """Raises `ClientError` with the job's own reason when it did not end well."""
    if job["status"] != "done":
        reason = job["error"]["message"] if job["error"] else "it gives no reason"
        raise ClientError(f"The job {job['job_id']} ended as `{job['status']}`: {reason}")
