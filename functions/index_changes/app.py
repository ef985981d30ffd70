"""Changes: takes them over HTTP, works on them from S3."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, status

from strata import bootstrap
from strata.contracts.indexing import ChangesAccepted, PostChanges, RollBackAccepted
from strata.contracts.jobs import JobView
from strata.edge.http import api, error_responses, mangum_handler
from strata.edge.identity import caller
from strata.edge.notifications import invocation_of, uploads_in
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
    job = bootstrap.lifecycle().open_changes(identity, session_id, request.lines())
    return ChangesAccepted(job=JobView.of(job))


@app.post(
    "/api/rag/sessions/{session_id}/rollback",
    status_code=status.HTTP_202_ACCEPTED,
    responses=error_responses(404),
)
def roll_back(session_id: str, identity: Annotated[Identity, Depends(caller)]) -> RollBackAccepted:
    return RollBackAccepted(job=JobView.of(bootstrap.lifecycle().open_roll_back(identity, session_id)))


def on_changes(event: dict[str, Any], context: Any) -> None:
    invocation = invocation_of(context)
    bootstrap.upload_worker().work(uploads_in(event), owner=invocation.owner, remaining_s=invocation.remaining_s)
