"""Requests as REST events, replies as HTTP, and which route serves a path."""

from __future__ import annotations

import base64
import json

import pytest

from strata_local.rest_events import HttpRequest, MalformedReply, event_of, match_route, reply_of
from strata_local.stack import Route


def route(path: str, method: str = "GET") -> Route:
    return Route(method=method, path=path, function="F", streaming=False, timeout_s=29)


def request(**changes: object) -> HttpRequest:
    values: dict[str, object] = {
        "method": "GET",
        "raw_path": "/a",
        "query_string": "",
        "headers": [("host", "localhost:8000"), ("user-agent", "test")],
        "body": b"",
        "source_ip": "127.0.0.1",
    }
    return HttpRequest(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/items", ("/items", {}), id="literal"),
        pytest.param("/items/7", ("/items/{id}", {"id": "7"}), id="parameter"),
        pytest.param("/items/new", ("/items/new", {}), id="literal before parameter"),
        pytest.param("/items/a%2Fb", ("/items/{id}", {"id": "a/b"}), id="an encoded slash is no border"),
        pytest.param("/items/a.b+c", ("/items/{id}", {"id": "a.b+c"}), id="a plus in a path is a plus"),
        pytest.param("/items/7/parts/x", ("/items/{id}/parts/{part}", {"id": "7", "part": "x"}), id="two parameters"),
        pytest.param("/items/", None, id="empty parameter"),
        pytest.param("/items/7/", None, id="final slash"),
        pytest.param("/itemsX", None, id="longer name"),
        pytest.param("/ITEMS", None, id="case counts"),
    ],
)
def test_a_path_finds_its_route(path: str, expected: tuple[str, dict[str, str]] | None) -> None:
    routes = [route("/items/{id}/parts/{part}"), route("/items/{id}"), route("/items"), route("/items/new")]
    matched = match_route(routes, "GET", path)
    assert (matched and (matched[0].path, matched[1])) == expected


def test_a_dot_in_a_route_is_no_wildcard() -> None:
    assert match_route([route("/a.b")], "GET", "/aXb") is None


def test_the_method_counts() -> None:
    assert match_route([route("/items", "POST")], "GET", "/items") is None


def test_an_event_without_query_body_or_parameters_has_nulls_like_api_gateways() -> None:
    event = event_of(request(), route("/a"), path_parameters={}, claims={}, request_id="r", stage="v1")
    absent = ("queryStringParameters", "multiValueQueryStringParameters", "pathParameters", "body", "stageVariables")
    assert [event[name] for name in absent] == [None] * 5


def test_an_event_carries_claims_time_and_forwarding() -> None:
    event = event_of(
        request(),
        route("/a"),
        path_parameters={},
        claims={"sub": "anna"},
        request_id="r",
        stage="v1",
        now=1_800_000_000.5,
    )
    context = event["requestContext"]
    assert (context["authorizer"]["sub"], context["authorizer"]["principalId"]) == ("anna", "anna")
    assert (context["requestTimeEpoch"], context["requestTime"]) == (1_800_000_000_500, "15/Jan/2027:08:00:00 +0000")
    assert event["headers"]["x-forwarded-proto"] == "http"
    assert event["multiValueHeaders"]["x-forwarded-for"] == ["127.0.0.1"]
    assert context["domainName"] == "localhost"


def test_repeated_headers_keep_every_value_and_the_last_alone() -> None:
    repeated = request(headers=[("host", "localhost"), ("x", "1"), ("x", "2")])
    event = event_of(repeated, route("/a"), path_parameters={}, claims={}, request_id="r", stage="v1")
    assert (event["headers"]["x"], event["multiValueHeaders"]["x"]) == ("2", ["1", "2"])


def test_a_reply_is_read_whole() -> None:
    reply = reply_of(
        json.dumps(
            {
                "statusCode": 201,
                "headers": {"content-type": "text/plain", "x-number": 7, "x-flag": True, "vary": "replaced"},
                "multiValueHeaders": {"vary": ["a", "b"]},
                "body": "привет",
                "isBase64Encoded": False,
            }
        ).encode()
    )
    assert (reply.status, reply.body.decode()) == (201, "привет")
    assert reply.headers == (
        ("content-type", "text/plain"),
        ("x-number", "7"),
        ("x-flag", "true"),
        ("vary", "a"),
        ("vary", "b"),
    )


def test_a_body_in_base64_is_decoded() -> None:
    body = base64.b64encode(b"\x00\xff").decode()
    assert reply_of(json.dumps({"statusCode": 200, "body": body, "isBase64Encoded": True}).encode()).body == b"\x00\xff"


def test_a_reply_without_a_body_is_empty() -> None:
    assert reply_of(b'{"statusCode": 204, "body": null}').body == b""


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"statusCode": "many"}',
        b'{"statusCode": 99}',
        b'{"statusCode": true}',
        b'{"statusCode": 200, "body": {}}',
        b'{"statusCode": 200, "headers": {"a": []}}',
        b'{"statusCode": 200, "headers": "x"}',
        b'{"statusCode": 200, "body": "%", "isBase64Encoded": true}',
    ],
)
def test_what_is_no_reply_is_malformed(payload: bytes) -> None:
    with pytest.raises(MalformedReply):
        reply_of(payload)
