from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import pytest
from fastapi import FastAPI, Query
from fastapi.responses import StreamingResponse
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from strata import errors
from strata.edge.http import api, error_body, error_responses, mangum_handler, status_of
from tests.support.lambda_events import LambdaContext, Reply, call, rest_event


class Body(BaseModel):
    number: int


def application(raises: BaseException | None = None) -> FastAPI:
    app = api("Test")

    @app.get("/fails", responses=error_responses())
    def fails() -> None:
        if raises is not None:
            raise raises

    @app.post("/echo")
    def echo(body: Body) -> Body:
        return body

    @app.get("/query")
    def query(limit: Annotated[int, Query(ge=1)] = 1) -> int:
        return limit

    return app


def ask(app: FastAPI, method: str = "GET", path: str = "/fails", **event: Any) -> Reply:
    return call(mangum_handler(app), rest_event(method, path, **event))


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.Unauthenticated(), 401, "unauthenticated"),
        (errors.SessionNotFound(), 404, "session_not_found"),
        (errors.JobNotFound(), 404, "job_not_found"),
        (errors.SessionNameTaken(), 409, "session_name_taken"),
        (errors.EmbeddingModelMismatch(), 409, "embedding_model_mismatch"),
        (errors.UploadTooLarge(), 413, "upload_too_large"),
        (errors.CorruptArchive(), 422, "corrupt_archive"),
        (errors.InvalidQuery(), 422, "invalid_query"),
        (errors.UnknownLayer(), 422, "unknown_layer"),
        (errors.InvalidPath(), 422, "invalid_path"),
        (errors.StoreUnavailable(), 503, "store_unavailable"),
        (errors.EmbedderUnavailable(), 503, "embedder_unavailable"),
        (errors.StaleFence(), 500, "internal"),
        (errors.ConfigurationError("STRATA_DATABASE_URL is not set"), 500, "internal"),
        (errors.EmbedderRejected(), 500, "internal"),
    ],
    ids=lambda value: value.code if isinstance(value, errors.StrataError) else None,
)
def test_an_error_has_its_status_and_its_code(error: errors.StrataError, status: int, code: str) -> None:
    reply = ask(application(error))
    assert (reply.status, reply.error_code) == (status, code)
    assert ("retry-after" in reply.headers) == (status == 503)
    if status != 500:
        assert reply.json["error"]["message"] == error.message


def test_every_error_of_the_tree_has_a_status() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.StrataError)]
    assert {status_of(kind()) for kind in kinds} == {401, 403, 404, 409, 413, 422, 500, 503}


@pytest.mark.parametrize("error", [RuntimeError("hunter2"), errors.StrataError("hunter2"), KeyError("hunter2")])
def test_a_fault_of_ours_names_the_request_and_nothing_else(error: Exception) -> None:
    reply = ask(application(error))
    assert (reply.status, reply.error_code) == (500, "internal")
    assert LambdaContext().aws_request_id in reply.json["error"]["message"]
    assert "hunter2" not in reply.body
    assert "Traceback" not in reply.body


def test_a_fault_is_logged_with_its_place_and_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    ask(application(RuntimeError("hunter2")))
    (record,) = [record for record in caplog.records if record.message == "A request failed."]
    logged = vars(record)
    assert logged["error"] == "builtins.RuntimeError"
    assert logged["request_id"] == LambdaContext().aws_request_id
    assert any("test_http.py" in frame for frame in logged["frames"])
    assert "hunter2" not in str(logged)


def test_an_unknown_route_and_a_wrong_method_have_the_same_shape() -> None:
    app = application()
    assert (ask(app, path="/nowhere").status, ask(app, path="/nowhere").error_code) == (404, "route_not_found")
    wrong = ask(app, "DELETE", "/echo")
    assert (wrong.status, wrong.error_code, wrong.headers["allow"]) == (405, "method_not_allowed", "POST")


RUBBISH = [
    pytest.param(None, id="nothing"),
    pytest.param("", id="empty"),
    pytest.param("{", id="half"),
    pytest.param("null", id="null"),
    pytest.param("[]", id="a list"),
    pytest.param('{"number": "x"}', id="a wrong type"),
    pytest.param('{"number": NaN}', id="no number"),
    pytest.param(b"\xff\xfe\x00", id="no text"),
    pytest.param(b"\x1f\x8b\x08\x00", id="a compressed file"),
    pytest.param("[" * 100_000, id="deep"),
    pytest.param('{"number": ' + "9" * 5_000 + "}", id="huge number"),
    pytest.param('{"a\\ud800": 1}', id="half a character"),
]


@pytest.mark.parametrize("body", RUBBISH)
def test_a_rubbish_body_is_refused_in_the_same_shape(body: object) -> None:
    reply = ask(application(), "POST", "/echo", body=body)
    assert (reply.status, reply.error_code) == (422, "invalid_request")


@given(st.one_of(st.text(max_size=50), st.binary(max_size=50)))
def test_no_body_makes_a_fault_of_ours(body: str | bytes) -> None:
    assert ask(application(), "POST", "/echo", body=body).status in (200, 422)


def test_a_validation_fault_names_the_place_and_not_the_value() -> None:
    reply = ask(application(), "POST", "/echo", body={"number": "hunter2"})
    assert "number" in reply.json["error"]["message"]
    assert "hunter2" not in reply.body
    assert "limit" in ask(application(), path="/query", query={"limit": "0"}).json["error"]["message"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"number": 1}', "text/plain"),
        ('{"number": 1}', "application/x-www-form-urlencoded"),
        ("[1]", "application/json"),
    ],
)
def test_a_body_that_is_no_object_says_what_to_send(body: str, kind: str) -> None:
    reply = ask(application(), "POST", "/echo", body=body, headers={"Content-Type": kind})
    assert (reply.status, reply.error_code) == (422, "invalid_request")
    assert "JSON object" in reply.json["error"]["message"]
    assert "Content-Type: application/json" in reply.json["error"]["message"]


def test_a_message_is_cut_and_can_always_be_sent() -> None:
    body = error_body("code", "\ud800" + "x" * 10_000)
    assert len(json.dumps(body, ensure_ascii=False).encode()) < 600


def test_an_error_after_the_reply_has_begun_reaches_the_runtime() -> None:
    app = api("Test")

    @app.get("/stream")
    def stream() -> StreamingResponse:
        def pieces() -> Any:
            yield "one"
            raise RuntimeError("in the middle")

        return StreamingResponse(pieces())

    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.Event().wait()  # nobody goes away

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/stream", "headers": [], "query_string": b"", "asgi": {}}
    with pytest.raises(BaseException, match=r"in the middle|TaskGroup"):
        asyncio.run(app(scope, receive, send))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]


def test_the_document_declares_the_shape_of_errors() -> None:
    document = application().openapi()
    responses = document["paths"]["/fails"]["get"]["responses"]
    for status in ("401", "422", "500", "503"):
        assert responses[status]["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorBody")


@pytest.mark.parametrize(
    "fault", [pytest.param(None, id="warmed"), pytest.param(errors.ConfigurationError("X is not set."), id="fails")]
)
def test_an_application_is_warmed_once_and_starts_also_where_that_fails(fault: errors.StrataError | None) -> None:
    warmed = []

    def warm() -> None:
        warmed.append(True)
        if fault is not None:
            raise fault

    app = api("Test", warm=warm)

    async def start() -> None:
        async with app.router.lifespan_context(app):
            assert warmed == [True]

    asyncio.run(start())
