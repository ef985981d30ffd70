"""Routes whose function answers in one piece: events, replies, processes and their time limits."""

from __future__ import annotations

import base64
import functools
import os
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from strata_local.up import LocalCloud
from tests.support.waiting import eventually, process_exists, process_is_gone

pytestmark = pytest.mark.e2e


def test_the_function_gets_a_whole_rest_event(http: httpx.Client) -> None:
    reply = http.post("/echo/a%20b?x=1&x=2&empty=", content='{"k": "ё"}', headers={"x-twice": "1"})
    event = reply.json()["event"]
    assert event["resource"] == "/echo/{name}"
    assert event["path"] == "/echo/a%20b"
    assert event["pathParameters"] == {"name": "a b"}
    assert event["httpMethod"] == "POST"
    assert event["queryStringParameters"] == {"x": "2", "empty": ""}
    assert event["multiValueQueryStringParameters"] == {"x": ["1", "2"], "empty": [""]}
    assert event["multiValueHeaders"]["x-twice"] == ["1"]
    assert (event["body"], event["isBase64Encoded"]) == ('{"k": "ё"}', False)
    context = event["requestContext"]
    assert (context["resourcePath"], context["path"], context["stage"]) == ("/echo/{name}", "/v1/echo/a%20b", "v1")
    assert context["identity"]["sourceIp"] == "127.0.0.1"
    assert reply.headers["x-amzn-requestid"] == context["requestId"]


def test_a_literal_path_wins_over_a_parameter(http: httpx.Client) -> None:
    assert http.get("/echo/literal").json()["event"]["resource"] == "/echo/literal"


def test_a_body_that_is_no_text_arrives_in_base64(http: httpx.Client) -> None:
    event = http.post("/echo/x", content=b"\xff\xfe").json()["event"]
    assert event["isBase64Encoded"] is True
    assert base64.b64decode(event["body"]) == b"\xff\xfe"


def test_the_environment_is_that_of_the_template_and_of_lambda(http: httpx.Client) -> None:
    os.environ["STRATA_TEST_LEAK"] = "from the shell"
    try:
        environment = http.get("/echo/environment").json()["environment"]
    finally:
        del os.environ["STRATA_TEST_LEAK"]
    assert environment["SHARED"] == "from the template"
    assert environment["BUCKET"] == "strata-local-bucket"
    assert environment["AWS_LAMBDA_FUNCTION_NAME"] == "Echo"
    assert environment["AWS_REGION"] == environment["AWS_DEFAULT_REGION"] == "us-east-1"
    assert environment["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
    assert "STRATA_TEST_LEAK" not in environment


def test_the_time_limit_is_the_templates(http: httpx.Client) -> None:
    assert 8_000 < http.get("/echo/x").json()["remaining_ms"] <= 10_000


def test_binary_replies_and_repeated_headers_arrive(http: httpx.Client) -> None:
    reply = http.get("/echo/binary")
    assert reply.content == bytes(range(256))
    assert reply.headers.get_list("set-cookie") == ["a=1", "b=2"]


@pytest.mark.parametrize("case", ["malformed", "raise", "large"])
def test_a_reply_that_is_none_is_502_without_detail(http: httpx.Client, case: str) -> None:
    reply = http.get(f"/echo/{case}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (502, "function_failed")
    assert "secret" not in reply.text


def test_after_a_crash_the_next_call_gets_a_new_process(http: httpx.Client) -> None:
    before = http.get("/echo/x").json()["pid"]
    crashed = http.get("/echo/crash")
    assert (crashed.status_code, crashed.headers["x-amzn-errortype"]) == (502, "Runtime.ExitError")
    assert eventually(lambda: not process_exists(before))
    after = http.get("/echo/x")
    assert after.status_code == 200
    assert after.json()["pid"] != before


def test_a_process_that_was_killed_while_idle_is_replaced_unseen(http: httpx.Client) -> None:
    for _ in range(5):
        pid = http.get("/echo/x").json()["pid"]
        os.kill(pid, 9)
        eventually(functools.partial(process_is_gone, pid))
        assert http.get("/echo/x").status_code == 200


def test_a_function_that_takes_too_long_is_stopped(http: httpx.Client, cloud: LocalCloud) -> None:
    started = time.monotonic()
    reply = http.get("/slow/x?sleep_s=30")
    assert (reply.status_code, reply.headers["x-amzn-errortype"]) == (504, "Sandbox.Timedout")
    assert time.monotonic() - started < 20
    assert http.get("/slow/x").status_code == 200
    assert "Task timed out after 1.00 seconds" in (cloud.logs / "Slow.log").read_text()


def test_an_integration_does_not_wait_longer_than_its_route_says(http: httpx.Client, cloud: LocalCloud) -> None:
    log = cloud.logs / "Echo.log"
    ended = log.read_text().count("REPORT")
    assert http.get("/late?sleep_s=4").status_code == 504
    assert log.read_text().count("REPORT") == ended
    eventually(lambda: log.read_text().count("REPORT") > ended)  # the function itself goes on to its end


def test_a_function_that_cannot_start_says_why_in_its_log(http: httpx.Client, cloud: LocalCloud) -> None:
    for _ in range(2):
        reply = http.get("/broken")
        assert (reply.status_code, reply.headers["x-amzn-errortype"]) == (502, "Runtime.ImportModuleError")
    assert "a package is missing" in (cloud.logs / "Broken.log").read_text()


def test_two_requests_run_in_two_processes_at_once_and_a_third_waits(http: httpx.Client) -> None:
    http.get("/echo/x")
    with ThreadPoolExecutor(3) as threads:
        started = time.monotonic()
        ask = [threads.submit(http.get, "/echo/x?sleep_s=0.8") for _ in range(3)]
        pids = [reply.result().json()["pid"] for reply in ask]
        took_s = time.monotonic() - started
    assert len(set(pids)) == 2  # the second came while the first was busy
    assert took_s > 1.5
