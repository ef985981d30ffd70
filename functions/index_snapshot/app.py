"""Snapshots: opens sessions and jobs over HTTP, works on uploads from S3."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Response, status

from strata import bootstrap
from strata.contracts.indexing import OpenSession, SessionOpened
from strata.edge.http import api, error_responses, mangum_handler
from strata.edge.identity import caller
from strata.edge.notifications import invocation_of, uploads_in
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
        reindex=request.reindex,
    )
    response.status_code = status.HTTP_201_CREATED if opened.created else status.HTTP_200_OK
    return SessionOpened.of(opened)


def on_upload(event: dict[str, Any], context: Any) -> None:
    invocation = invocation_of(context)
    bootstrap.upload_worker().work(uploads_in(event), owner=invocation.owner, remaining_s=invocation.remaining_s)
