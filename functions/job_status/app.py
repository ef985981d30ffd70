"""Jobs, their events, and sessions, as their readers may see them; what an owner does about a job."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Header, Query, Response, status

from strata.bootstrap import jobs
from strata.contracts.drift import DriftView
from strata.contracts.jobs import (
    DeadLetterView,
    FailureList,
    JobChanged,
    JobList,
    JobView,
    SessionList,
    SessionView,
)
from strata.contracts.linked import LinksView
from strata.edge.http import api, error_responses, mangum_handler
from strata.edge.identity import caller
from strata.jobs.events import LONGEST_WAIT_S, sse_text
from strata.model.access import Identity
from strata.model.corpus import MAX_PATH_CHARACTERS

app = api("Strata: jobs")
http = mangum_handler(app)

Caller = Annotated[Identity, Depends(caller)]


@app.get("/api/rag/sessions", responses=error_responses())
def list_sessions(identity: Caller) -> SessionList:
    return SessionList(sessions=[SessionView.of(found) for found in jobs.job_reader().list_sessions(identity)])


@app.get("/api/rag/sessions/{session_id}", responses=error_responses(404))
def get_session(session_id: str, identity: Caller) -> SessionView:
    return SessionView.of(jobs.job_reader().session(identity, session_id))


@app.get("/api/rag/sessions/{session_id}/jobs", responses=error_responses(404))
def list_jobs(session_id: str, identity: Caller) -> JobList:
    return JobList(jobs=[JobView.of(job) for job in jobs.job_reader().list_jobs(identity, session_id)])


@app.get("/api/rag/sessions/{session_id}/drift", responses=error_responses(404))
def get_drift(session_id: str, identity: Caller) -> DriftView:
    return DriftView.of(session_id, jobs.drift_reporter().report(session_id, identity))


@app.get("/api/rag/sessions/{session_id}/links", responses=error_responses(404))
def get_links(
    session_id: str,
    identity: Caller,
    name: Annotated[str, Query(min_length=1, max_length=MAX_PATH_CHARACTERS, pattern=r"^[^\x00]+$")],
) -> LinksView:
    """What a file (by its path) or a symbol (by its qualified name or the end of it) uses, and what uses it."""
    return LinksView.of(session_id, jobs.link_finder().of(session_id, identity, name))


@app.get("/api/rag/jobs", responses=error_responses())
def list_failures(identity: Caller, status: Annotated[Literal["failed"], Query()]) -> FailureList:  # noqa: ARG001
    """Failed jobs and dead letters of every session that the caller may read; `status=failed` is the only list yet."""
    failures = jobs.job_control().failures(identity)
    return FailureList(
        jobs=[JobView.of(job) for job in jobs.job_reader().all_shown(identity, failures.jobs)],
        dead_letters=[DeadLetterView.of(letter) for letter in failures.dead_letters],
    )


@app.post("/api/rag/jobs/{job_id}/cancel", status_code=status.HTTP_202_ACCEPTED, responses=error_responses(404, 409))
def cancel_job(job_id: str, identity: Caller) -> JobChanged:
    """The job is `cancelled` already, or still `running` and will be at its worker's next heartbeat."""
    job = jobs.job_control().cancel(identity, job_id)
    return JobChanged(job=JobView.of(jobs.job_reader().shown(identity, job)))


@app.post("/api/rag/jobs/{job_id}/retry", status_code=status.HTTP_202_ACCEPTED, responses=error_responses(404, 409))
def retry_job(job_id: str, identity: Caller) -> JobChanged:
    """`job_id` is a failed job's or a dead letter's; the reply has the new job."""
    job = jobs.job_control().retry(identity, job_id)
    return JobChanged(job=JobView.of(jobs.job_reader().shown(identity, job)))


@app.get("/api/rag/jobs/{job_id}", responses=error_responses(404))
def get_job(job_id: str, identity: Caller) -> JobView:
    return JobView.of(jobs.job_reader().job(identity, job_id))


@app.get(
    "/api/rag/jobs/{job_id}/events",
    response_class=Response,
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events after `after`."},
        204: {"description": "The job has ended and its last event is known to the caller: do not come back."},
        **error_responses(404),
    },
)
def get_events(
    job_id: str,
    identity: Caller,
    after: Annotated[int, Query(ge=0)] = 0,
    wait_s: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S)] = LONGEST_WAIT_S,
    last_event_id: Annotated[int | None, Header(ge=0)] = None,
) -> Response:
    job = jobs.job_reader().job(identity, job_id)
    news = jobs.event_feed().after(job.job_id, after if last_event_id is None else last_event_id, wait_s=wait_s)
    if news.over:
        return Response(status_code=204)
    terminal = JobView.of(jobs.job_reader().shown(identity, news.job)).model_dump(mode="json")
    return Response(
        sse_text(news.events, terminal=terminal),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store"},
    )
