"""The local cloud with small real functions: front, Runtime API, processes, S3 events, and what is left at the end."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest

from strata_local.errors import AlreadyRunning, LocalCloudError, PortTaken
from strata_local.functions import Limits
from strata_local.tokens import dev_token
from strata_local.up import LocalCloud, down, running_cloud

pytestmark = pytest.mark.e2e

TEMPLATE = Path(__file__).parents[1] / "support" / "local_stack" / "template.yaml"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="module")
def records(folder: Path) -> Path:
    path = folder / "records"
    path.mkdir()
    return path


@pytest.fixture(scope="module")
def cloud(folder: Path, records: Path) -> Iterator[LocalCloud]:
    started = LocalCloud(
        folder / "data",
        port=0,
        template=TEMPLATE,
        environment={"RECORD_FOLDER": str(records)},
        limits=Limits(max_processes=2, retry_delays_s=(0.05, 0.1), retry_delay_after_death_s=0.2),
    )
    with started:
        yield started


@pytest.fixture
def http(cloud: LocalCloud) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=cloud.api_url, timeout=30, trust_env=False) as client:
        yield client


def eventually(condition: Callable[[], Any], *, within_s: float = 15.0) -> Any:
    """The first true result of `condition`."""
    limit = time.monotonic() + within_s
    while not (result := condition()):
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.02)
    return result


def process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def process_is_gone(pid: int) -> bool:
    return not process_exists(pid)


class TestBufferedRoutes:
    def test_the_function_gets_a_whole_rest_event(self, http: httpx.Client) -> None:
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

    def test_a_literal_path_wins_over_a_parameter(self, http: httpx.Client) -> None:
        assert http.get("/echo/literal").json()["event"]["resource"] == "/echo/literal"

    def test_a_body_that_is_no_text_arrives_in_base64(self, http: httpx.Client) -> None:
        event = http.post("/echo/x", content=b"\xff\xfe").json()["event"]
        assert event["isBase64Encoded"] is True
        assert base64.b64decode(event["body"]) == b"\xff\xfe"

    def test_the_environment_is_that_of_the_template_and_of_lambda(self, http: httpx.Client) -> None:
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

    def test_the_time_limit_is_the_templates(self, http: httpx.Client) -> None:
        assert 8_000 < http.get("/echo/x").json()["remaining_ms"] <= 10_000

    def test_binary_replies_and_repeated_headers_arrive(self, http: httpx.Client) -> None:
        reply = http.get("/echo/binary")
        assert reply.content == bytes(range(256))
        assert reply.headers.get_list("set-cookie") == ["a=1", "b=2"]

    @pytest.mark.parametrize("case", ["malformed", "raise", "large"])
    def test_a_reply_that_is_none_is_502_without_detail(self, http: httpx.Client, case: str) -> None:
        reply = http.get(f"/echo/{case}")
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "function_failed")
        assert "secret" not in reply.text

    def test_after_a_crash_the_next_call_gets_a_new_process(self, http: httpx.Client) -> None:
        before = http.get("/echo/x").json()["pid"]
        crashed = http.get("/echo/crash")
        assert (crashed.status_code, crashed.headers["x-amzn-errortype"]) == (502, "Runtime.ExitError")
        assert eventually(lambda: not process_exists(before))
        after = http.get("/echo/x")
        assert after.status_code == 200
        assert after.json()["pid"] != before

    def test_a_process_that_was_killed_while_idle_is_replaced_unseen(self, http: httpx.Client) -> None:
        for _ in range(5):
            pid = http.get("/echo/x").json()["pid"]
            os.kill(pid, 9)
            eventually(functools.partial(process_is_gone, pid))
            assert http.get("/echo/x").status_code == 200

    def test_a_function_that_takes_too_long_is_stopped(self, http: httpx.Client, cloud: LocalCloud) -> None:
        started = time.monotonic()
        reply = http.get("/slow/x?sleep_s=30")
        assert (reply.status_code, reply.headers["x-amzn-errortype"]) == (504, "Sandbox.Timedout")
        assert time.monotonic() - started < 20
        assert http.get("/slow/x").status_code == 200
        assert "Task timed out after 1.00 seconds" in (cloud.logs / "Slow.log").read_text()

    def test_an_integration_does_not_wait_longer_than_its_route_says(
        self, http: httpx.Client, cloud: LocalCloud
    ) -> None:
        log = cloud.logs / "Echo.log"
        ended = log.read_text().count("REPORT")
        assert http.get("/late?sleep_s=4").status_code == 504
        assert log.read_text().count("REPORT") == ended
        eventually(lambda: log.read_text().count("REPORT") > ended)  # the function itself goes on to its end

    def test_a_function_that_cannot_start_says_why_in_its_log(self, http: httpx.Client, cloud: LocalCloud) -> None:
        for _ in range(2):
            reply = http.get("/broken")
            assert (reply.status_code, reply.headers["x-amzn-errortype"]) == (502, "Runtime.ImportModuleError")
        assert "a package is missing" in (cloud.logs / "Broken.log").read_text()

    def test_two_requests_run_in_two_processes_at_once_and_a_third_waits(self, http: httpx.Client) -> None:
        http.get("/echo/x")
        with ThreadPoolExecutor(3) as threads:
            started = time.monotonic()
            ask = [threads.submit(http.get, "/echo/x?sleep_s=0.8") for _ in range(3)]
            pids = [reply.result().json()["pid"] for reply in ask]
            took_s = time.monotonic() - started
        assert len(set(pids)) == 2  # the second came while the first was busy
        assert took_s > 1.5


class TestStreamingRoutes:
    def test_pieces_arrive_as_they_are_made(self, http: httpx.Client) -> None:
        http.get("/stream/describe")
        arrivals = []
        started = time.monotonic()
        with http.stream("GET", "/stream/tokens") as reply:
            assert reply.headers["content-type"] == "text/event-stream"
            for piece in reply.iter_raw():
                arrivals.append((time.monotonic() - started, piece))
        assert b"".join(piece for _, piece in arrivals) == b"data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\n"
        moments = [moment for moment, _ in arrivals]
        assert len(moments) == 4
        assert moments[0] < 0.15
        assert all(later - earlier > 0.12 for earlier, later in itertools.pairwise(moments))

    @pytest.mark.parametrize(
        ("case", "status", "body"),
        [
            ("nothing", 204, b""),
            ("denied", 401, b'{"error": "sign in"}'),
            ("missing", 404, b"not here"),
            ("moved", 302, b""),
        ],
    )
    def test_every_status_arrives(self, http: httpx.Client, case: str, status: int, body: bytes) -> None:
        reply = http.get(f"/stream/{case}")
        assert (reply.status_code, reply.content) == (status, body)

    def test_a_head_request_gets_the_head_alone_and_the_connection_lives_on(self, http: httpx.Client) -> None:
        reply = http.head("/stream/describe")
        assert (reply.status_code, reply.content) == (200, b"")
        assert reply.headers["content-type"] == "application/json"
        assert http.get("/stream/describe").json()["method"] == "GET"

    def test_cookies_and_repeated_headers_arrive(self, http: httpx.Client) -> None:
        headers = http.get("/stream/cookies").headers
        assert headers.get_list("set-cookie") == ["a=1", "b=2"]
        assert headers.get_list("vary") == ["a", "b"]

    def test_the_application_knows_its_request(self, http: httpx.Client) -> None:
        known = http.post("/stream/de%20scribe?a=1&a=%26", content="привет").json()
        assert (known["method"], known["path"], known["query"]) == ("POST", "/stream/de scribe", "a=1&a=%26")
        assert known["body"].encode("latin-1").decode() == "привет"
        assert known["claims"]["sub"] == "local"
        assert 0 < known["remaining_ms"] <= 4_000
        assert abs(known["deadline_ms"] - time.time() * 1000) < 10_000
        assert known["trace"].startswith("Root=1-")

    def test_the_lifespan_runs_once_a_process(self, http: httpx.Client) -> None:
        for _ in range(3):
            known = http.get("/stream/describe").json()
            assert (known["starts"], known["state"]) == (1, {"greeting": "hello"})

    @pytest.mark.parametrize(
        ("case", "error_type"),
        [("raises-before", "ValueError"), ("crashes-before", "Runtime.ExitError"), ("huge-headers", "PreludeTooLarge")],
    )
    def test_an_error_before_the_first_byte_is_502_without_detail(
        self, http: httpx.Client, case: str, error_type: str
    ) -> None:
        reply = http.get(f"/stream/{case}")
        assert (reply.status_code, reply.headers["x-amzn-errortype"]) == (502, error_type)
        assert "secret" not in reply.text
        assert http.get("/stream/describe").status_code == 200

    @pytest.mark.parametrize("case", ["raises-after", "crashes-after", "returns-early"])
    def test_an_error_in_the_stream_breaks_it_off(self, http: httpx.Client, case: str) -> None:
        received = b""
        broken = False
        with http.stream("GET", f"/stream/{case}") as reply:
            assert reply.status_code == 200
            try:
                for piece in reply.iter_raw():
                    received += piece
            except httpx.RemoteProtocolError:
                broken = True
        assert broken
        assert received == b"begun"
        assert http.get("/stream/describe").status_code == 200

    def test_an_error_after_the_reply_is_complete_leaves_the_reply_whole(self, http: httpx.Client) -> None:
        reply = http.get("/stream/raises-when-complete")
        assert (reply.status_code, reply.content) == (500, b"an honest 500")

    def test_near_the_deadline_an_event_stream_ends_with_an_error_event(self, http: httpx.Client) -> None:
        reply = http.get("/stream/never-ends")
        assert reply.text.startswith("data: begun\n\n")
        last = reply.text.strip().split("\n\n")[-1]
        assert last.strip().startswith("event: error\ndata: {")
        assert json.loads(last.partition("data: ")[2])["code"] == "deadline_exceeded"

    @pytest.mark.parametrize("case", ["never-starts", "blocks-a-thread"])
    def test_near_the_deadline_a_reply_that_has_not_begun_is_an_error(self, http: httpx.Client, case: str) -> None:
        reply = http.get(f"/stream/{case}")
        assert (reply.status_code, reply.headers["x-amzn-errortype"]) == (502, "DeadlineExceeded")
        assert http.get("/stream/describe").status_code == 200

    def test_a_reader_who_goes_away_does_not_stop_the_function(self, http: httpx.Client, cloud: LocalCloud) -> None:
        with http.stream("GET", "/stream/tokens") as reply:
            next(reply.iter_raw())
        assert http.get("/stream/describe").status_code == 200

    @pytest.mark.parametrize("path", ["/wrong/buffered", "/wrong/streaming"])
    def test_a_reply_in_the_other_form_than_its_routes_is_502(self, http: httpx.Client, path: str) -> None:
        assert http.get(path).status_code == 502


class TestFront:
    @pytest.mark.parametrize(("method", "path"), [("GET", "/nowhere"), ("DELETE", "/echo/x"), ("GET", "/echo/x/y")])
    def test_an_unknown_route_is_404_in_our_shape(self, http: httpx.Client, method: str, path: str) -> None:
        reply = http.request(method, path)
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "route_not_found")

    def test_without_a_token_the_caller_is_local(self, http: httpx.Client) -> None:
        claims = http.get("/echo/x").json()["event"]["requestContext"]["authorizer"]
        assert {name: claims[name] for name in ("sub", "tenant", "groups", "scopes")} == {
            "sub": "local",
            "tenant": "local",
            "groups": "",
            "scopes": "internal",
        }

    def test_a_development_token_says_who_calls(self, http: httpx.Client, cloud: LocalCloud) -> None:
        token = dev_token(cloud.data_directory, "anna", tenant="acme", groups=["docs", "code"], scopes=["ask", "index"])
        claims = http.get("/echo/x", headers={"authorization": f"Bearer {token}"}).json()["event"]["requestContext"][
            "authorizer"
        ]
        assert (claims["sub"], claims["tenant"], claims["groups"], claims["scopes"]) == (
            "anna",
            "acme",
            "docs,code",
            "ask index",
        )

    @pytest.mark.parametrize("header", ["Bearer nonsense", "Bearer", "Basic YTpi", ""])
    def test_a_bad_token_is_401(self, http: httpx.Client, header: str) -> None:
        reply = http.get("/echo/x", headers={"authorization": header})
        assert (reply.status_code, reply.json()["error"]["code"]) == (401, "unauthenticated")

    def test_a_token_of_another_cloud_is_401(self, http: httpx.Client, folder: Path) -> None:
        token = dev_token(folder / "another", "anna")
        assert http.get("/echo/x", headers={"authorization": f"Bearer {token}"}).status_code == 401

    def test_an_expired_token_is_401(self, http: httpx.Client, cloud: LocalCloud) -> None:
        token = dev_token(cloud.data_directory, "anna", expires_in_s=-10)
        assert http.get("/echo/x", headers={"authorization": f"Bearer {token}"}).status_code == 401

    def test_more_than_10_megabytes_are_413(self, http: httpx.Client) -> None:
        assert http.post("/echo/x", content=b"x" * (10 * 1024 * 1024 + 1)).status_code == 413

    @pytest.mark.parametrize(
        "headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}]
    )
    def test_another_sites_page_cannot_act_as_the_local_user(self, http: httpx.Client, headers: dict[str, str]) -> None:
        assert http.get("/echo/x", headers=headers).status_code == 403


class TestEvents:
    @pytest.fixture
    def s3(self, cloud: LocalCloud) -> Any:
        environment = cloud.environment
        return boto3.client(
            "s3",
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            region_name=environment["AWS_REGION"],
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        )

    @staticmethod
    def seen(records: Path, marker: str) -> list[dict[str, Any]]:
        documents = [json.loads(path.read_text()) for path in records.glob("*.json")]
        return [document for document in documents if marker in json.dumps(document)]

    def test_an_upload_invokes_the_worker_with_key_version_and_sequencer(self, s3: Any, records: Path) -> None:
        version = s3.put_object(Bucket="strata-local-bucket", Key="uploads/one two/a+b.zip", Body=b"12345")["VersionId"]
        (document,) = eventually(lambda: self.seen(records, "one+two"))
        described = document["event"]["Records"][0]["s3"]["object"]
        assert described["key"] == "uploads/one+two/a%2Bb.zip"
        assert (described["versionId"], described["size"]) == (version, 5)
        assert int(described["sequencer"], 16) > 0

    def test_sequencers_grow_with_the_writes_of_a_key(self, s3: Any, records: Path) -> None:
        versions = [
            s3.put_object(Bucket="strata-local-bucket", Key="uploads/again", Body=b"%d" % number)["VersionId"]
            for number in range(3)
        ]
        documents = eventually(lambda: len(found := self.seen(records, "uploads/again")) == 3 and found)
        objects = [document["event"]["Records"][0]["s3"]["object"] for document in documents]
        assert [each["versionId"] for each in sorted(objects, key=lambda each: each["sequencer"])] == versions

    def test_a_presigned_post_invokes_the_worker(self, s3: Any, records: Path) -> None:
        post = s3.generate_presigned_post("strata-local-bucket", "uploads/posted.zip")
        reply = httpx.post(post["url"], data=post["fields"], files={"file": b"content"}, trust_env=False)
        assert reply.status_code == 204
        (document,) = eventually(lambda: self.seen(records, "uploads/posted.zip"))
        assert document["event"]["Records"][0]["eventName"] == "ObjectCreated:Post"

    def test_another_prefix_invokes_nobody(self, s3: Any, records: Path) -> None:
        s3.put_object(Bucket="strata-local-bucket", Key="elsewhere/file", Body=b"")
        s3.put_object(Bucket="strata-local-bucket", Key="uploads/after-elsewhere", Body=b"")
        eventually(lambda: self.seen(records, "uploads/after-elsewhere"))
        assert self.seen(records, "elsewhere/file") == []

    @pytest.mark.parametrize("kind", ["crash-once", "raise-once"])
    def test_a_failed_event_is_delivered_again(self, s3: Any, records: Path, cloud: LocalCloud, kind: str) -> None:
        s3.put_object(Bucket="strata-local-bucket", Key=f"uploads/{kind}", Body=b"")
        documents = eventually(lambda: len(found := self.seen(records, f"uploads/{kind}")) == 2 and found)
        assert documents[0]["event"] == documents[1]["event"]
        time.sleep(0.3)
        assert len(self.seen(records, f"uploads/{kind}")) == 2

    def test_an_event_that_fails_three_times_is_a_dead_letter(self, s3: Any, records: Path, cloud: LocalCloud) -> None:
        s3.put_object(Bucket="strata-local-bucket", Key="uploads/crash-always", Body=b"")
        letters = cloud.logs / "dead-letters.jsonl"
        eventually(lambda: letters.exists() and letters.read_text().endswith("\n"))
        letter = json.loads(letters.read_text().splitlines()[-1])
        assert (letter["function"], letter["attempts"], letter["error_type"]) == ("Worker", 3, "Runtime.ExitError")
        assert letter["event"]["Records"][0]["s3"]["object"]["key"] == "uploads/crash-always"
        assert len(self.seen(records, "uploads/crash-always")) == 3

    def test_the_templates_table_is_there(self, cloud: LocalCloud) -> None:
        environment = cloud.environment
        dynamodb = boto3.client(
            "dynamodb",
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            region_name=environment["AWS_REGION"],
            aws_access_key_id="local",
            aws_secret_access_key="local",
        )
        described = dynamodb.describe_time_to_live(TableName="strata-local-Table")["TimeToLiveDescription"]
        assert described == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}


class TestLife:
    def test_a_second_cloud_in_the_same_directory_is_told_where_the_first_one_is(self, cloud: LocalCloud) -> None:
        with pytest.raises(AlreadyRunning, match=cloud.api_url):
            LocalCloud(cloud.data_directory, port=0, template=TEMPLATE).start()
        assert httpx.get(f"{cloud.api_url}/health", trust_env=False).status_code == 200

    def test_another_process_finds_the_running_cloud(self, cloud: LocalCloud) -> None:
        found = running_cloud(cloud.data_directory)
        assert found is not None
        assert (found.pid, found.api_url) == (os.getpid(), cloud.api_url)
        assert found.environment["BUCKET"] == "strata-local-bucket"
        assert (cloud.data_directory / "state.json").stat().st_mode & 0o077 == 0

    def test_it_does_not_end_its_own_process(self, cloud: LocalCloud) -> None:
        with pytest.raises(LocalCloudError):
            down(cloud.data_directory)


PROGRAM = """
import signal
import sys
from pathlib import Path
from strata_client.cli.cloud import serve
from strata_local.up import LocalCloud

def stop(number, frame):
    raise SystemExit(0)

signal.signal(signal.SIGINT, stop)
signal.signal(signal.SIGTERM, stop)
cloud = LocalCloud(Path(sys.argv[1]), port=0, template=Path(sys.argv[2]), report=lambda line: print(line, flush=True))
with cloud:
    cloud.warm()
    print(f"pids {sum(cloud.functions.pids.values(), [])}", flush=True)
    serve()
"""


class TestOwnProcess:
    """The cloud in a process of its own, as `strata up` runs it."""

    @pytest.fixture
    def data(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as name:
            yield Path(name) / "data"

    @pytest.fixture
    def program(self, data: Path) -> Iterator[tuple[subprocess.Popen[str], list[int], list[str]]]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(data), str(TEMPLATE)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines: list[str] = []
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            for line in process.stdout:
                lines.append(line.strip())
                if line.startswith("pids "):
                    break
            yield process, json.loads(lines[-1].removeprefix("pids ")), lines
        finally:
            watchdog.cancel()
            process.kill()
            process.wait()
            process.stdout.close()

    def test_down_ends_it_and_leaves_no_process(
        self, data: Path, program: tuple[subprocess.Popen[str], list[int], list[str]]
    ) -> None:
        process, pids, lines = program
        assert len(pids) >= 4  # one of every function that can start
        assert any(line.startswith("Echo is warm") for line in lines)
        found = running_cloud(data)
        assert found is not None
        assert found.pid == process.pid
        assert httpx.get(f"{found.api_url}/health", trust_env=False).status_code == 200
        assert down(data) is True
        assert process.wait(10) == 0
        assert not any(process_exists(pid) for pid in pids)
        assert running_cloud(data) is None
        assert not (data / "state.json").exists()
        assert down(data, wipe=True) is False
        assert not data.exists()

    def test_when_it_is_killed_its_children_end_too(
        self, data: Path, program: tuple[subprocess.Popen[str], list[int], list[str]]
    ) -> None:
        process, pids, _ = program
        process.kill()
        process.wait()
        eventually(lambda: not any(process_exists(pid) for pid in pids))
        assert running_cloud(data) is None
        assert down(data) is False

    def test_ctrl_c_ends_it(self, program: tuple[subprocess.Popen[str], list[int], list[str]]) -> None:
        process, pids, _ = program
        process.send_signal(2)
        assert process.wait(10) == 0
        assert not any(process_exists(pid) for pid in pids)


def test_a_taken_port_is_named_and_nothing_stays(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=str(port)):
            LocalCloud(tmp_path / "data", port=port, template=TEMPLATE).start()
    assert running_cloud(tmp_path / "data") is None


def test_a_folder_that_is_no_data_directory_is_not_wiped(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(LocalCloudError, match="nothing was removed"):
        down(tmp_path, wipe=True)
    assert (tmp_path / "precious").exists()
