"""Snapshots: opens sessions and jobs over HTTP, works on uploads from S3."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Response, status

from strata.bootstrap import environment, jobs, workers
from strata.contracts.executions import ExecutionPlanned
from strata.contracts.indexing import Indexed, IndexSnapshot, OpenSession, SessionOpened, SetReaders
from strata.contracts.jobs import JobView, SessionView
from strata.edge.http import api, error_responses, mangum_handler
from strata.edge.identity import caller, internal_caller
from strata.edge.notifications import execution_ended, invocation_of, orders_in, uploads_in
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
    opened = jobs.lifecycle().open_snapshot(
        identity,
        session_id=request.session_id,
        project_id=request.project_id,
        readers=request.readers,
        upload_format=request.format,
        inline=request.inline(),
        reindex=request.reindex,
    )
    response.status_code = status.HTTP_201_CREATED if opened.created else status.HTTP_200_OK
    return SessionOpened.of(opened, jobs.job_reader().shown(identity, opened.job))


@app.patch("/api/rag/sessions/{session_id}", responses=error_responses(404))
def set_readers(session_id: str, request: SetReaders, identity: Annotated[Identity, Depends(caller)]) -> SessionView:
    return SessionView.of(jobs.session_keeper().set_readers(identity, session_id, request.readers))


@app.delete(
    "/api/rag/sessions/{session_id}",
    status_code=status.HTTP_204_NO_CONTENT,
    response_class=Response,
    responses=error_responses(404),
)
def delete_session(session_id: str, identity: Annotated[Identity, Depends(caller)]) -> None:
    jobs.session_keeper().delete(identity, session_id)


@app.post("/internal/rag/index/snapshot", responses={202: {"model": Indexed}, **error_responses(403, 409, 413)})
def index_snapshot(
    request: IndexSnapshot, response: Response, identity: Annotated[Identity, Depends(internal_caller)]
) -> Indexed:
    """200 with the job at its end when that comes within 20 s, else 202 with the job as it is."""
    opened = jobs.lifecycle().open_snapshot(
        identity,
        session_id=request.session_id,
        project_id=request.project_id,
        readers=request.readers,
        inline=request.lines(),
        reindex=request.reindex,
    )
    job = jobs.event_feed().ended(opened.job.job_id, wait_s=LONGEST_WAIT_S)
    response.status_code = status.HTTP_200_OK if job.status.ended else status.HTTP_202_ACCEPTED
    return Indexed(job=JobView.of(jobs.job_reader().shown(identity, job)))


# --- the states of the re-indexing state machine, one handler each --------------------------------------------------


def plan(event: dict[str, Any], context: Any) -> dict[str, Any]:
    planned = workers.job_execution().plan(event["job_id"], invocation_of(context).remaining_s)
    return ExecutionPlanned.of(planned, bucket=environment.settings().storage.bucket).model_dump(mode="json")


def prepare(event: dict[str, Any], context: Any) -> None:
    workers.job_execution().prepare(event["job_id"], event["batch_key"], invocation_of(context).remaining_s)


def fill(event: dict[str, Any], context: Any) -> dict[str, Any]:
    index_id = workers.job_execution().fill(event["job_id"], invocation_of(context).remaining_s)
    return {"index_id": index_id}


def flip(event: dict[str, Any], context: Any) -> None:
    workers.job_execution().flip(event["job_id"], event["index_id"], invocation_of(context).remaining_s)


def release(event: dict[str, Any], context: Any) -> None:
    invocation = invocation_of(context)
    workers.job_execution().release(
        event["session_id"], event["job_id"], owner=invocation.owner, remaining_s=invocation.remaining_s
    )


def fail(event: dict[str, Any], context: Any) -> None:  # noqa: ARG001
    workers.job_execution().fail(event["job_id"], event["error"]["Error"], event["error"]["Cause"])


def on_execution_ended(event: dict[str, Any], context: Any) -> None:
    ended, invocation = execution_ended(event), invocation_of(context)
    workers.job_execution().ended(ended.name, ended.status, owner=invocation.owner, remaining_s=invocation.remaining_s)


def on_upload(event: dict[str, Any], context: Any) -> None:
    invocation = invocation_of(context)
    workers.upload_worker().work(
        uploads_in(event), orders_in(event), owner=invocation.owner, remaining_s=invocation.remaining_s
    )
