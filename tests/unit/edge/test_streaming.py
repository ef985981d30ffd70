"""Events as ASGI requests, and the prelude of a streamed reply."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from strata.edge.streaming.loading import HandlerNotFound, load_application
from strata.edge.streaming.requests import InvalidEvent, request_of
from strata.edge.streaming.runtime_api import DELIMITER, LambdaContext, PreludeTooLarge, prelude_of


def rest(**changes: Any) -> dict[str, Any]:
    event: dict[str, Any] = {
        "resource": "/a",
        "path": "/a",
        "httpMethod": "GET",
        "headers": {"Host": "api.example:443"},
        "multiValueHeaders": None,
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "requestContext": {"identity": {"sourceIp": "10.0.0.1"}},
        "body": None,
        "isBase64Encoded": False,
    }
    return {**event, **changes}


class TestRestEvents:
    def test_every_value_of_a_header_and_of_a_parameter_arrives(self) -> None:
        event = rest(
            headers={"X": "2"},
            multiValueHeaders={"X": ["1", "2"], "Accept": ["text/event-stream"]},
            queryStringParameters={"a": "2"},
            multiValueQueryStringParameters={"a": ["1", "2 &"], "b": [""]},
        )
        scope, _ = request_of(event)
        assert scope["headers"] == [(b"x", b"1"), (b"x", b"2"), (b"accept", b"text/event-stream")]
        assert scope["query_string"] == b"a=1&a=2+%26&b="

    def test_single_values_are_enough(self) -> None:
        scope, _ = request_of(rest(headers={"X": "1"}, queryStringParameters={"a": "я"}))
        assert scope["headers"] == [(b"x", b"1")]
        assert scope["query_string"] == b"a=%D1%8F"

    def test_the_path_is_decoded_once_and_kept_raw(self) -> None:
        scope, _ = request_of(rest(path="/a%20b%252F"))
        assert (scope["path"], scope["raw_path"]) == ("/a b%2F", b"/a%20b%252F")

    @pytest.mark.parametrize(
        ("body", "is_base64", "expected"),
        [
            pytest.param(None, False, b"", id="none"),
            pytest.param("привет", False, "привет".encode(), id="text"),
            pytest.param(base64.b64encode(b"\xff\x00").decode(), True, b"\xff\x00", id="base64"),
        ],
    )
    def test_the_body_arrives_as_bytes(self, body: str | None, is_base64: bool, expected: bytes) -> None:
        assert request_of(rest(body=body, isBase64Encoded=is_base64))[1] == expected

    def test_client_server_and_scheme_are_told(self) -> None:
        scope, _ = request_of(rest())
        assert (scope["client"], scope["server"], scope["scheme"]) == (("10.0.0.1", 0), ("api.example", 443), "https")


class TestHttpApiEvents:
    def test_version_2_is_understood(self) -> None:
        event = {
            "version": "2.0",
            "rawPath": "/a%20b",
            "rawQueryString": "a=1&a=2",
            "cookies": ["s=1", "t=2"],
            "headers": {"host": "h", "x": "1,2"},
            "requestContext": {"http": {"method": "POST", "sourceIp": "10.0.0.2"}},
            "body": "x",
            "isBase64Encoded": False,
        }
        scope, body = request_of(event)
        assert (scope["method"], scope["path"], scope["query_string"], body) == ("POST", "/a b", b"a=1&a=2", b"x")
        assert dict(scope["headers"])[b"cookie"] == b"s=1; t=2"


@pytest.mark.parametrize(
    "event",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"Records": []}, id="another service's"),
        pytest.param({"requestContext": {}}, id="no method"),
        pytest.param(rest(httpMethod=None), id="a method that is none"),
        pytest.param(rest(body="%%%", isBase64Encoded=True), id="broken base64"),
        pytest.param(rest(path=7), id="a path that is none"),
        pytest.param(rest(headers={"ключ": "x"}), id="a header name that is none"),
        pytest.param(rest(headers={"host": "a:b"}), id="a port that is none"),
        pytest.param(rest(headers=["x"]), id="headers that are a list"),
        pytest.param({"version": "2.0", "requestContext": {}}, id="version 2 without a request"),
    ],
)
def test_what_is_no_http_request_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent):
        request_of(event)


def test_the_prelude_is_json_without_a_nul_and_eight_nuls() -> None:
    prelude = prelude_of(200, [(b"X-Text", "é\0".encode("latin-1"))])
    text, delimiter, rest_of_it = prelude.partition(DELIMITER)
    assert b"\0" not in text
    assert (delimiter, rest_of_it) == (DELIMITER, b"")
    assert json.loads(text) == {"statusCode": 200, "headers": {"x-text": "é\0"}}


def test_cookies_and_repeated_headers_have_their_own_places() -> None:
    headers = [
        (b"a", b"1"),
        (b"vary", b"x"),
        (b"Vary", b"y"),
        (b"vary", b"z"),
        (b"set-cookie", b"s=1"),
        (b"set-cookie", b"t"),
    ]
    document = json.loads(prelude_of(201, headers).removesuffix(DELIMITER))
    assert document == {
        "statusCode": 201,
        "headers": {"a": "1"},
        "multiValueHeaders": {"vary": ["x", "y", "z"]},
        "cookies": ["s=1", "t"],
    }


@pytest.mark.parametrize("name", [b"Content-Length", b"connection", b"transfer-encoding", b"Keep-Alive"])
def test_headers_that_speak_of_the_connection_stay_behind(name: bytes) -> None:
    assert json.loads(prelude_of(200, [(name, b"x")]).removesuffix(DELIMITER))["headers"] == {}


def test_a_prelude_beyond_16_kilobytes_is_refused() -> None:
    with pytest.raises(PreludeTooLarge):
        prelude_of(200, [(b"x", b"x" * 16_384)])


@pytest.mark.parametrize("handler", ["", "app", ".app", "app.", "json.nothing", "json.__name__"])
def test_a_handler_that_names_no_application_is_refused(handler: str) -> None:
    with pytest.raises((HandlerNotFound, ModuleNotFoundError)):
        load_application(handler)


def test_a_handler_may_name_a_module_in_a_folder() -> None:
    assert load_application("json/decoder.JSONDecoder").__name__ == "JSONDecoder"


def test_no_time_remains_after_the_deadline() -> None:
    context = LambdaContext(aws_request_id="r", invoked_function_arn="", deadline_ms=1)
    assert context.get_remaining_time_in_millis() == 0
