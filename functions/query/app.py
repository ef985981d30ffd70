"""Questions: answered as a stream of events or as one object, and the ranked rows behind an answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from strata import __version__
from strata.bootstrap import environment, questions
from strata.contracts.asking import AnswerView, Ask
from strata.contracts.files import FilePageView
from strata.contracts.frames import sse_frame
from strata.contracts.health import HealthView
from strata.contracts.searching import RetrievedView, Search
from strata.edge.http import api, error_responses
from strata.edge.identity import caller
from strata.edge.negotiating import wants_json
from strata.edge.sse import event_stream, within_deadline
from strata.errors import SessionNotFound
from strata.jobs.naming import is_session_id
from strata.model.access import Identity
from strata.model.corpus import MAX_PATH_CHARACTERS

app = api("Strata: questions", warm=questions.warm_answering)

Caller = Annotated[Identity, Depends(caller)]


@app.post(
    "/api/rag/sessions/{session_id}/query",
    response_class=Response,
    responses={
        200: {
            "model": AnswerView,
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
            "description": "Events (`meta`, `sources`, `delta`, `citation`, `done`, `error`), or with "
            "`Accept: application/json` the same as one object.",
        },
        **error_responses(404, 409),
    },
)
async def query(session_id: str, body: Ask, request: Request, identity: Caller) -> Response:
    started = time.perf_counter()
    question = body.to_question(session_id, identity)

    def frames() -> Iterator[bytes]:
        return map(sse_frame, questions.answerer().stream(question, started=started))

    def answer() -> AnswerView:
        return AnswerView.of(questions.answerer().stream(question, started=started))

    if wants_json(request.headers.get("accept")):
        return JSONResponse((await within_deadline(answer, request.scope)).model_dump(mode="json"))
    return await event_stream(frames, request.scope)


@app.post("/api/rag/sessions/{session_id}/retrieve", responses=error_responses(404, 409))
async def retrieve(session_id: str, body: Search, request: Request, identity: Caller) -> RetrievedView:
    question = body.to_question(session_id, identity)
    found = await within_deadline(lambda: questions.retriever().retrieve(question), request.scope)
    return RetrievedView.of(session_id, found, environment.clock().now())


@app.get("/api/rag/sessions/{session_id}/files", responses=error_responses(404))
async def files(
    session_id: str,
    request: Request,
    identity: Caller,
    after: Annotated[str, Query(max_length=MAX_PATH_CHARACTERS)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 100,
) -> FilePageView:
    """The files that the caller may read, whole, a page at a time in the order of their paths.

    A file without a word, as an empty `__init__.py`, is left out: nothing of it can be found.
    """
    if not is_session_id(session_id):
        raise SessionNotFound
    page = await within_deadline(
        lambda: questions.retriever().file_page(session_id, identity, after=after, limit=limit), request.scope
    )
    return FilePageView.of(session_id, page)


@app.options("/api/rag/sessions/{session_id}/files", status_code=204)
async def files_allowed() -> Response:
    return Response(status_code=204, headers={"Allow": "GET, OPTIONS"})


@app.options("/api/rag/sessions/{session_id}/query", status_code=204)
@app.options("/api/rag/sessions/{session_id}/retrieve", status_code=204)
async def allowed() -> Response:
    return Response(status_code=204, headers={"Allow": "POST, OPTIONS"})


@app.get("/health")
async def health() -> HealthView:
    return HealthView(version=__version__)


@app.head("/health")
async def health_head() -> Response:
    return Response(media_type="application/json")
