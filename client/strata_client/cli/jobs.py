"""`strata jobs`: what was indexed, what failed and why, and what can be done about it."""

from __future__ import annotations

from typing import Annotated

import typer

from strata_client.cli.connecting import connect, hint
from strata_client.cli.groups import ListGroup
from strata_client.cli.options import AnySession, Api, AsJson, Token
from strata_client.cli.progress import place_of, usage_text
from strata_client.cli.screen import Screen, one_line
from strata_client.client import StrataClient
from strata_client.errors import ClientError
from strata_client.wire import FailureList, JobView

CANCEL_PATIENCE_S = 60.0

jobs_app = typer.Typer(
    cls=ListGroup,
    help="""Indexing jobs: list them, show one, end one, put a failed one back.

    `strata jobs` lists them, `strata jobs ID` shows one, `strata jobs --failed` what failed and why; `strata jobs list
    --help` names every option.

    Example: strata jobs --session shop
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
