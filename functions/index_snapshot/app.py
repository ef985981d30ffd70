"""Snapshots: opens sessions and jobs over HTTP, works on uploads from S3."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Response, status

from strata import bootstrap
from strata.contracts.indexing import Indexed, IndexSnapshot, OpenSession, SessionOpened, SetReaders
from strata.contracts.jobs import JobView, SessionView
from strata.edge.http import api, error_responses, mangum_handler
from strata.edge.identity import caller, internal_caller
from strata.edge.notifications import invocation_of, orders_in, uploads_in
from strata.jobs.events import LONGEST_WAIT_S
from strata.model.access import Identity

app = api("Strata: snapshots")
http = mangum_handler(app)


@app.post(
    "/api/rag/sessions",
    status_code=status.HTTP_201_CREATED,
    responses={
        200: {"model": SessionOpened, "description": "The session existed and is the caller's."},
        **error_responses(409, 413),
    },
)
def open_session(
    request: OpenSession, response: Response, identity: Annotated[Identity, Depends(caller)]
) -> SessionOpened:
    opened = bootstrap.lifecycle().open_snapshot(
        identity,
        session_id=request.session_id,
        project_id=request.project_id,
        readers=request.readers,
        upload_format=request.format,
        inline=request.inline(),
    )
    response.status_code = status.HTTP_201_CREATED if opened.created else status.HTTP_200_OK
    return SessionOpened.of(opened)


@app.patch("/api/rag/sessions/{session_id}", responses=error_responses(404))
def set_readers(session_id: str, request: SetReaders, identity: Annotated[Identity, Depends(caller)]) -> SessionView:
    return SessionView.of(bootstrap.session_keeper().set_readers(identity, session_id, request.readers))


@app.delete(
    "/api/rag/sessions/{session_id}",
    status_code=status.HTTP_204_NO_CONTENT,
    response_class=Response,
    responses=error_responses(404),
)
def delete_session(session_id: str, identity: Annotated[Identity, Depends(caller)]) -> None:
    bootstrap.session_keeper().delete(identity, session_id)


@app.post("/internal/rag/index/snapshot", responses={202: {"model": Indexed}, **error_responses(403, 409, 413)})
def index_snapshot(
    request: IndexSnapshot, response: Response, identity: Annotated[Identity, Depends(internal_caller)]
) -> Indexed:
    """200 with the job at its end when that comes within 20 s, else 202 with the job as it is."""
    opened = bootstrap.lifecycle().open_snapshot(
        identity,
        session_id=request.session_id,
        project_id=request.project_id,
        readers=request.readers,
        inline=request.lines(),
    )
    job = bootstrap.event_feed().ended(opened.job.job_id, wait_s=LONGEST_WAIT_S)
    response.status_code = status.HTTP_200_OK if job.status.ended else status.HTTP_202_ACCEPTED
    return Indexed(job=JobView.of(job))


def on_upload(event: dict[str, Any], context: Any) -> None:
    invocation = invocation_of(context)
    bootstrap.upload_worker().work(
        uploads_in(event), orders_in(event), owner=invocation.owner, remaining_s=invocation.remaining_s
    )
