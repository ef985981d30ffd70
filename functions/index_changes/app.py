"""Changes: takes them over HTTP, works on them from S3; and the sweep, which looks after work that nobody is doing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Depends, Response, status

from strata.bootstrap import jobs, workers
from strata.contracts.indexing import ChangesAccepted, IndexChanges, Indexed, PostChanges, RollBackAccepted
from strata.contracts.jobs import JobView
from strata.edge.http import api, error_responses, mangum_handler
from strata.edge.identity import caller, internal_caller
from strata.edge.notifications import invocation_of, orders_in, uploads_in
from strata.jobs.events import LONGEST_WAIT_S
from strata.model.access import Identity

app = api("Strata: changes")
http = mangum_handler(app)


@app.post(
    "/api/rag/sessions/{session_id}/changes",
    status_code=status.HTTP_202_ACCEPTED,
    responses=error_responses(404, 409, 413),
)
def post_changes(
    session_id: str, request: PostChanges, identity: Annotated[Identity, Depends(caller)]
) -> ChangesAccepted:
    job = jobs.lifecycle().open_changes(identity, session_id, request.lines())
    return ChangesAccepted(job=JobView.of(jobs.job_reader().shown(identity, job)))


@app.post(
    "/api/rag/sessions/{session_id}/rollback",
    status_code=status.HTTP_202_ACCEPTED,
    responses=error_responses(404),
)
def roll_back(session_id: str, identity: Annotated[Identity, Depends(caller)]) -> RollBackAccepted:
    job = jobs.lifecycle().open_roll_back(identity, session_id)
    return RollBackAccepted(job=JobView.of(jobs.job_reader().shown(identity, job)))


@app.post("/internal/rag/index/changes", responses={202: {"model": Indexed}, **error_responses(403, 404, 409, 413)})
def index_changes(
    request: IndexChanges, response: Response, identity: Annotated[Identity, Depends(internal_caller)]
) -> Indexed:
    """200 with the job at its end when that comes within 20 s, else 202 with the job as it is."""
    accepted = jobs.lifecycle().open_changes(identity, request.session_id, request.lines())
    job = jobs.event_feed().ended(accepted.job_id, wait_s=LONGEST_WAIT_S)
    response.status_code = status.HTTP_200_OK if job.status.ended else status.HTTP_202_ACCEPTED
    return Indexed(job=JobView.of(jobs.job_reader().shown(identity, job)))


def on_changes(event: dict[str, Any], context: Any) -> None:
    invocation = invocation_of(context)
    workers.upload_worker().work(
        uploads_in(event), orders_in(event), owner=invocation.owner, remaining_s=invocation.remaining_s
    )


def sweep(_event: dict[str, Any], _context: Any) -> dict[str, int]:
    return asdict(workers.sweep().run())
