"""The commands that speak to an API: index, ask, search, jobs, sessions, drift."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata_client.cli.answers import place, show_answer
from strata_client.cli.connecting import connect, hint
from strata_client.cli.explaining import show_explanations
from strata_client.cli.groups import ListGroup
from strata_client.cli.options import (
    AnySession,
    Api,
    AsJson,
    Exclude,
    ExcludeLike,
    Layers,
    PathPrefix,
    Prefer,
    PreferLike,
    PreferNonTests,
    Session,
    Token,
)
from strata_client.cli.progress import JobBar, place_of, show_outcome, usage_text
from strata_client.cli.screen import Screen, one_line
from strata_client.client import StrataClient
from strata_client.errors import ClientError
from strata_client.indexing import IndexedFolder, index_folder
from strata_client.wire import FailureList, JobView, RetrieveOptions, SearchOptions

CANCEL_PATIENCE_S = 60.0


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


def ask(
    *,
    question: Annotated[str, typer.Argument(help="A question about the project.")],
    session: Session,
    layers: Layers = None,
    path: PathPrefix = None,
    exclude: Exclude = None,
    exclude_like: ExcludeLike = None,
    prefer: Prefer = None,
    prefer_like: PreferLike = None,
    prefer_non_tests: PreferNonTests = False,
    as_json: AsJson = False,
    api: Api = None,
    token: Token = None,
) -> None:
    """Ask a question and read the answer as it is written, with its sources.

    Example: strata ask "Where is the retry delay set?" --session shop --path src/
    """
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        options = _filters(layers, path, exclude, exclude_like, prefer, prefer_like, prefer_non_tests=prefer_non_tests)
        answer, _ = show_answer(screen, session, client.ask(session, question, **options))
        if as_json:
            screen.result(answer)


def search(
    *,
    query: Annotated[str, typer.Argument(help="Words, a name, or a question.")],
    session: Session,
    layers: Layers = None,
    path: PathPrefix = None,
    exclude: Exclude = None,
    exclude_like: ExcludeLike = None,
    prefer: Prefer = None,
    prefer_like: PreferLike = None,
    prefer_non_tests: PreferNonTests = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=50, help="How many rows at most.")] = 10,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each row's score is made of.")] = False,
    as_json: AsJson = False,
    api: Api = None,
    token: Token = None,
) -> None:
    """Show the ranked pieces of the project that a question would be answered from.

    Example: strata search "retry delay" --session shop --layers C0,C1 --limit 5
    """
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        options: RetrieveOptions = {"limit": limit}
        if explain:
            options["explain"] = True
        filters = _filters(layers, path, exclude, exclude_like, prefer, prefer_like, prefer_non_tests=prefer_non_tests)
        options.update(filters)  # type: ignore[typeddict-item]
        found = client.retrieve(session, query, **options)
    if as_json:
        screen.result(found)
        return
    screen.table(
        ("#", "score", "place", "layer", "title"),
        [
            (
                str(n),
                f"{row['score']:.4f}",
                place(row["path"], row["span_start"], row["span_end"]),
                row["layer"][:2],
                row["title"],
            )
            for n, row in enumerate(found["rows"], 1)
        ],
    )
    for note in found.get("notes", []):  # a server of an earlier version sends none
        screen.warn(note)
    if not found["rows"]:
        screen.note("Nothing found.")
    elif explain:
        show_explanations(screen, found["rows"])


jobs_app = typer.Typer(
    cls=ListGroup,
    help="""Indexing jobs: list them, show one, end one, put a failed one back.

    `strata jobs` lists them, `strata jobs ID` shows one, `strata jobs --failed` what failed and why; `strata jobs list
    --help` names every option.

    Example: strata jobs --session shop
    """,
    no_args_is_help=False,
)
sessions_app = typer.Typer(
    cls=ListGroup,
    help="""Sessions: list those that you may read, delete one.

    Example: strata sessions
    """,
    no_args_is_help=False,
)


@jobs_app.command("list")
def jobs(
    *,
    job_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Only this job, with its details.")] = None,
    session: AnySession = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only failed jobs, and uploads that could not become a job.")
    ] = False,
    as_json: AsJson = False,
    api: Api = None,
    token: Token = None,
) -> None:
    """List the indexing jobs, newest first, or show one.

    Example: strata jobs --session shop
    """
    screen = Screen(as_json=as_json)
    if failed and job_id:
        raise typer.BadParameter("a job's ID and --failed do not go together")
    with connect(api, token) as client:
        if failed:
            _show_failures(screen, client.failures(), session)
            return
        found = [client.job(job_id)] if job_id else _jobs_of(client, session)
    if as_json:
        screen.result(found[0] if job_id else found)
    elif job_id:
        _show_job(screen, found[0])
    else:
        _show_jobs(screen, found)
        if not found:
            screen.note("No jobs yet.")


@jobs_app.command("cancel")
def cancel(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job.")],
    as_json: AsJson = False,
    api: Api = None,
    token: Token = None,
) -> None:
    """End a job before its commit; the index stays as it is.

    Example: strata jobs cancel job-01k3v8x2m4q6s8t0w2y4a6c8e0
    """
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        job = client.cancel_job(job_id)
        if job["status"] == "running":
            job = client.wait_for(job_id, timeout_s=CANCEL_PATIENCE_S)
    if as_json:
        screen.result(job)
    if job["status"] != "cancelled":
        raise ClientError(f"The job {job_id} ended as `{job['status']}` before it could be cancelled.")
    if not as_json:
        screen.line(f"{job_id} is cancelled.")


@jobs_app.command("retry")
def retry(
    failed_id: Annotated[str, typer.Argument(metavar="ID", help="A failed job, or a dead letter.")],
    as_json: AsJson = False,
    api: Api = None,
    token: Token = None,
) -> None:
    """Put a failed job back: a new job from the same upload, at the end of its session's order.

    Example: strata jobs retry job-01k3v8x2m4q6s8t0w2y4a6c8e0
    """
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        job = client.retry_job(failed_id)
    if as_json:
        screen.result(job)
    else:
        screen.line(f"{job['job_id']} is {job['status']}; follow it with: {hint('jobs', api)} {job['job_id']}")


def _jobs_of(client: StrataClient, session: str | None) -> list[JobView]:
    names = [session] if session else [view["session_id"] for view in client.sessions()]
    return sorted((job for name in names for job in client.jobs(name)), key=lambda job: job["created_at"], reverse=True)


def _show_jobs(screen: Screen, found: list[JobView]) -> None:
    screen.table(
        ("job", "session", "kind", "status", "indexed", "failed", "updated"),
        [
            (
                job["job_id"],
                job["session_id"],
                job["kind"],
                job["status"],
                str(job["counters"]["indexed_files"]),
                str(job["counters"]["failed_files"]),
                job["updated_at"],
            )
            for job in found
        ],
    )


def _show_failures(screen: Screen, failures: FailureList, session: str | None) -> None:
    jobs = [job for job in failures["jobs"] if session in (None, job["session_id"])]
    letters = [letter for letter in failures["dead_letters"] if session in (None, letter["session_id"])]
    if screen.as_json:
        screen.result({"jobs": jobs, "dead_letters": letters})
        return
    screen.table(
        ("id", "session", "failed at", "reason"),
        [
            *(
                (
                    job["job_id"],
                    job["session_id"],
                    job["updated_at"],
                    f"{job['error']['message']} [{job['error']['code']}]" if job["error"] else "",
                )
                for job in jobs
            ),
            *(
                (
                    letter["id"],
                    letter["session_id"] or "",
                    letter["created_at"],
                    f"{letter['object_key']}: {letter['reason']}",
                )
                for letter in letters
            ),
        ],
    )
    if not jobs and not letters:
        screen.note("Nothing has failed.")


def _show_job(screen: Screen, job: JobView) -> None:
    for name in ("job_id", "session_id", "kind", "status", "created_at", "updated_at", "generation", "chunks"):
        if job[name] is not None:
            screen.line(f"{name}: {job[name]}")
    for name, count in job["counters"].items():
        screen.line(f"{name}: {count}")
    if usage := job.get("preambles"):
        screen.line(f"preambles: {usage_text(usage)}")
    if job["error"]:
        screen.line(f"error: {job['error']['message']} [{job['error']['code']}]", style="red")
    for title, entries in (("failed", job["failed"]), ("skipped", job["skipped"])):
        for entry in entries:
            screen.line(f"{title}: {one_line(entry['path'])}: {entry['reason']}")
    for note in job["notes"]:
        screen.line(f"note: {place_of(note)}: {note['reason']}")
    if job["note_count"] > len(job["notes"]):
        screen.line(f"note: {job['note_count'] - len(job['notes']):,} more")


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


def drift(session: Session, as_json: AsJson = False, api: Api = None, token: Token = None) -> None:
    """List files and symbols that the documents name and the project no longer has.

    Each with the path and the line where it is named.

    Example: strata drift --session shop
    """
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        found = client.drift(session)
    if as_json:
        screen.result(found)
        return
    screen.table(
        ("place", "kind", "name", "exists up to"),
        [
            (f"{item['path']}:{item['line']}", item["kind"], item["name"], item["known"] or "")
            for item in found["drift"]
        ],
    )
    if not found["drift"]:
        screen.note("No document names something of this project that is not there.")
    if found["truncated"]:
        screen.note("There is more; these are the first.")


def _filters(  # noqa: PLR0917 - one for each option of the same name, in its order
    layers: str | None,
    path: list[str] | None,
    exclude: list[str] | None,
    exclude_like: list[str] | None,
    prefer: list[str] | None,
    prefer_like: list[str] | None,
    *,
    prefer_non_tests: bool,
) -> SearchOptions:
    """What was asked for, and nothing else."""
    options: SearchOptions = {}
    if layers:
        options["layers"] = [layer.strip() for layer in layers.split(",") if layer.strip()]
    if path:
        options["path_prefixes"] = path
    if exclude:
        options["exclude_path_prefixes"] = exclude
    if exclude_like:
        options["exclude_like_patterns"] = exclude_like
    if prefer:
        options["prefer_path_prefixes"] = prefer
    if prefer_like:
        options["prefer_like_patterns"] = prefer_like
    if prefer_non_tests:
        options["prefer_non_tests"] = True
    return options
