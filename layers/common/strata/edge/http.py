"""HTTP for every function: one shape of errors, one place where an error becomes a status."""

from __future__ import annotations

import traceback
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, cast

from aws_lambda_powertools import Logger
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from mangum import Mangum
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from strata import __version__
from strata.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    RouteNotFound,
    StrataError,
    TemporaryError,
    Unauthenticated,
    UploadRejected,
    UploadTooLarge,
)

RETRY_AFTER_S = 2
INTERNAL = "internal"
_MAX_MESSAGE_CHARACTERS = 500

_STATUSES: tuple[tuple[type[StrataError], int], ...] = (
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (UploadTooLarge, 413),
    (UploadRejected, 422),
    (InvalidRequest, 422),
    (TemporaryError, 503),
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
LambdaHandler = Callable[[dict[str, Any], Any], dict[str, Any]]


class ErrorDetail(BaseModel):
    code: str
    """Stable, in snake_case: clients branch on it."""
    message: str
    """One sentence for a person."""


class ErrorBody(BaseModel):
    """The body of every reply that is not a success."""

    error: ErrorDetail


_DESCRIPTIONS = {
    401: "The request carries no valid token.",
    403: "The caller's token lacks the scope that this route asks for.",
    404: "There is no such thing, or the caller may not read it.",
    409: "The request does not fit the present state.",
    413: "The request carries more than one request may.",
    422: "The request is not valid.",
    500: "A fault of this service; the message names the request.",
    503: "A store can't be reached just now; try again after `Retry-After`.",
}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route declares in its OpenAPI document; 401, 422, 500 and 503 belong to every route."""
    return {
        status: {"model": ErrorBody, "description": _DESCRIPTIONS[status]}
        for status in sorted({401, 422, 500, 503, *statuses})
    }


@cache
def logger() -> Logger:
    return Logger(service="strata")


def api(title: str, *, warm: Callable[[], object] | None = None) -> FastAPI:
    """An application whose every error, its own or the framework's, has the shape of `ErrorBody`.

    `warm` is called once, before the first request. Where it fails with an error of ours, that is logged, and the
    request that needs what is missing reports it.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            if warm is not None:
                await run_in_threadpool(warm)
        except StrataError as error:
            logger().error("The function could not be warmed.", extra={"code": error.code, "reason": error.message})
        yield

    app = FastAPI(
        title=title,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.add_exception_handler(StrataError, _strata_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _framework_error)
    app.add_middleware(_LastResort)
    return app


def mangum_handler(app: FastAPI) -> LambdaHandler:
    """The application as a buffered Lambda handler."""
    text = ["text/", "application/json", "application/x-ndjson", "application/problem+json"]
    handler: LambdaHandler = Mangum(app, lifespan="off", text_mime_types=text)
    return handler


def status_of(error: StrataError) -> int:
    """The HTTP status of an error; 500 for those that no caller can do anything about.

    >>> status_of(Unauthenticated())
    401
    """
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def error_body(code: str, message: str) -> dict[str, Any]:
    """The body of an error. A message may quote the request: it is cut, and what UTF-8 can't hold is replaced."""
    shown = message[:_MAX_MESSAGE_CHARACTERS].encode(errors="replace").decode()
    return {"error": {"code": code, "message": shown}}


def internal_error_body(error: BaseException, scope: Mapping[str, Any]) -> dict[str, Any]:
    """The body for a fault of ours: it names the request and nothing else; the fault itself is logged.

    The log holds the error's class and where it was raised, not its text: that may quote content or a secret.
    """
    request_id = request_id_of(scope)
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    logger().error(
        "A request failed.",
        extra={
            "request_id": request_id,
            "method": scope.get("method"),
            "route": getattr(scope.get("route"), "path", None),
            "error": f"{type(error).__module__}.{type(error).__qualname__}",
            "frames": frames[-12:],
        },
    )
    return error_body(INTERNAL, f"Something went wrong here; the fault is logged under request {request_id}.")


def request_id_of(scope: Mapping[str, Any]) -> str:
    """The platform's number of this request, or a new one outside Lambda."""
    found = getattr(scope.get("aws.context"), "aws_request_id", None)
    if not found and isinstance(event := scope.get("aws.event"), Mapping):
        context = event.get("requestContext")
        found = context.get("requestId") if isinstance(context, Mapping) else None
    return str(found or uuid.uuid4())


async def _strata_error(request: Request, error: Exception) -> JSONResponse:
    error = cast(StrataError, error)
    status = status_of(error)
    if status == 500:
        return JSONResponse(internal_error_body(error, request.scope), status_code=500)
    logger().info(
        "A request was refused.",
        extra={
            "method": request.method,
            "route": getattr(request.scope.get("route"), "path", None),
            "code": error.code,
        },
    )
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else None
    return JSONResponse(error_body(error.code, error.message), status_code=status, headers=headers)


async def _validation_error(_: Request, error: Exception) -> JSONResponse:
    faults = _faults(cast(RequestValidationError, error))
    return JSONResponse(error_body(InvalidRequest().code, faults), status_code=422)


async def _framework_error(request: Request, error: Exception) -> JSONResponse:
    error = cast(HTTPException, error)
    if error.status_code == 404:
        body = error_body(RouteNotFound().code, RouteNotFound().message)
    elif error.status_code == 405:
        body = error_body("method_not_allowed", f"This route does not answer {request.method}.")
    elif error.status_code == 400:  # the body could not be read as JSON at all
        return JSONResponse(error_body(InvalidRequest().code, "The body is not JSON in UTF-8."), status_code=422)
    else:
        body = error_body("http_error", str(error.detail))
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)


def _faults(error: RequestValidationError) -> str:
    """The first faults with their places; never the values: they may be content."""
    faults = []
    for fault in error.errors()[:3]:
        if fault["type"] == "json_invalid":
            return "The body is not valid JSON."
        if fault["type"] == "model_attributes_type" and fault["loc"] == ("body",):
            return "The body must be a JSON object, sent with `Content-Type: application/json`."
        place = ".".join(str(part)[:60] for part in fault["loc"] if part != "body")
        message = str(fault["msg"]).removeprefix("Value error, ")
        faults.append(f"{place}: {message}" if place else message)
    return "; ".join(faults) + "." if faults else InvalidRequest().message


class _LastResort:
    """Answers 500 for what nobody caught. Once a reply has begun the error goes on: the runtime must see it."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watched_send)
        except Exception as error:
            if scope["type"] != "http" or started:
                raise
            response = JSONResponse(internal_error_body(error, scope), status_code=500)
            await response(scope, receive, send)
