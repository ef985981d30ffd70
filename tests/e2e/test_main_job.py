"""The main job through the whole local cloud: real HTTP, S3, DynamoDB, Postgres and function processes.

The embedder is `hashed`, so that a run takes seconds; `test_demo.py` does the same with the real model.
"""

from __future__ import annotations

import io
import json
import sysconfig
import tarfile
import threading
import zipfile
from pathlib import Path

import httpx
import pytest

from strata_client.client import StrataClient
from strata_client.errors import StrataApiError
from strata_local.tokens import dev_token
from strata_local.up import LocalCloud
from tests.support.courier import FILES, GUIDE, paths_found, snapshot, tar_gz

pytestmark = pytest.mark.e2e

LIBRARY = Path(sysconfig.get_path("stdlib"))
PACKAGES = (
    "asyncio",
    "concurrent",
    "email",
    "html",
    "http",
    "importlib",
    "json",
    "logging",
    "unittest",
    "urllib",
    "xml",
)
"""Real code that every machine has: some 200 files, 3 MB."""


def test_a_snapshot_in_s3_becomes_an_answer_with_quotes_that_stand_in_the_cited_lines(client: StrataClient) -> None:
    job = snapshot(client, "courier", tar_gz(FILES))
    assert (job["status"], job["counters"]["indexed_files"], job["counters"]["failed_files"]) == ("done", 3, 0)

    answer = client.answer("courier", "How do I reset the webhook secret?")

    assert not answer["answer"]["abstained"]
    assert "settings page" in answer["answer"]["text"]
    assert answer["answer"]["citations"]
    for citation in answer["answer"]["citations"]:
        first, last = citation["lines"]
        cited = "\n".join(FILES[citation["path"]].splitlines()[first - 1 : last])
        assert citation["quote"] in cited


def test_events_count_up_without_a_gap_and_can_be_taken_up_again(client: StrataClient) -> None:
    job = snapshot(client, "courier-events", tar_gz(FILES))
    events = list(client.job_events(job["job_id"], timeout_s=30))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].ended
    later = list(client.job_events(job["job_id"], after=events[-2].seq, timeout_s=30))
    assert [event.seq for event in later] == [events[-1].seq]
    assert list(client.job_events(job["job_id"], after=events[-1].seq, timeout_s=30)) == []


def test_an_off_topic_question_is_answered_with_an_honest_not_found(client: StrataClient) -> None:
    snapshot(client, "courier-off-topic", tar_gz(FILES))
    for question in ("What is the capital of France?", "столица Франции?"):
        answer = client.answer("courier-off-topic", question)["answer"]
        assert (answer["abstained"], answer["citations"]) == (True, [])
        assert answer["text"]


def test_changes_take_effect_in_order_and_a_deleted_file_never_answers(client: StrataClient) -> None:
    snapshot(client, "courier-changes", tar_gz(FILES))
    before = client.answer("courier-changes", "How often is a failed webhook delivery retried?")["answer"]
    assert "five times" in before["text"]

    client.changes("courier-changes", [{"op": "delete", "path": "src/delivery.py"}])
    job = client.changes(
        "courier-changes",
        [{"op": "upsert", "path": "docs/webhooks.md", "content": GUIDE.replace("five times", "seventeen times")}],
    )
    assert client.wait_for(job["job_id"], timeout_s=60)["status"] == "done"

    assert "src/delivery.py" not in paths_found(client, "courier-changes", "deliver_webhook MAX_ATTEMPTS payload")
    after = client.answer("courier-changes", "How often is a failed webhook delivery retried?")["answer"]
    assert "seventeen times" in after["text"]
    deleted = next(job for job in client.jobs("courier-changes") if job["seq"] == 2)
    assert deleted["counters"]["deleted_files"] == 1


def test_the_same_snapshot_again_is_all_cache_hits(client: StrataClient) -> None:
    snapshot(client, "courier-twice", tar_gz(FILES))
    again = snapshot(client, "courier-twice", tar_gz(FILES))
    counters = again["counters"]
    assert (counters["cache_hit_files"], counters["cache_miss_files"], counters["indexed_files"]) == (3, 0, 0)


@pytest.mark.parametrize(
    ("archive", "format", "code"),
    [
        pytest.param(b"this is no archive", "tar.gz", "corrupt_archive", id="no archive at all"),
        pytest.param(tar_gz(FILES)[:-40], "tar.gz", "corrupt_archive", id="cut off"),
        pytest.param(tar_gz({"../../x.md": "# out"}), "tar.gz", "unsafe_entry", id="a path that leaves the project"),
        pytest.param(tar_gz({"a.md": b"a" * 40_000_000}), "tar.gz", "upload_too_large", id="a bomb"),
        pytest.param(b'{"path": "a.md", "content": "x"}\n{"path"', "jsonl", "corrupt_archive", id="half a line"),
        pytest.param(b"PK\x03\x04 rubbish", "zip", "corrupt_archive", id="no zip"),
    ],
)
def test_a_bad_archive_ends_its_job_and_the_old_index_still_answers(
    client: StrataClient, archive: bytes, format: str, code: str
) -> None:
    snapshot(client, "courier-bad", tar_gz(FILES))
    generation = client.session("courier-bad")["generation"]

    job = snapshot(client, "courier-bad", archive, format)

    assert (job["status"], (job["error"] or {}).get("code")) == ("error", code)
    assert client.session("courier-bad")["generation"] == generation
    assert "docs/webhooks.md" in paths_found(client, "courier-bad", "webhook secret")


def test_a_link_in_an_archive_ends_its_job(client: StrataClient) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        link = tarfile.TarInfo("notes.md")
        link.type, link.linkname = tarfile.SYMTYPE, "../secret.md"
        archive.addfile(link)
    job = snapshot(client, "courier-link", buffer.getvalue())
    assert (job["status"], (job["error"] or {}).get("code")) == ("error", "unsafe_entry")


def test_one_unreadable_file_fails_alone(client: StrataClient) -> None:
    files: dict[str, str | bytes] = {**FILES, "bad.py": b"# -*- coding: no-such-codec -*-\nx = '\xff\xfe\xfa'\n"}
    job = snapshot(client, "courier-unreadable", tar_gz(files))
    assert (job["status"], job["counters"]["indexed_files"], job["counters"]["failed_files"]) == ("done", 3, 1)
    assert [failed["path"] for failed in job["failed"]] == ["bad.py"]


def test_zip_and_json_lines_are_read_as_well(client: StrataClient) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in FILES.items():
            archive.writestr(path, text)
    lines = "".join(json.dumps({"path": path, "content": text}) + "\n" for path, text in FILES.items())
    for name, content, format in (("zip", buffer.getvalue(), "zip"), ("lines", lines.encode(), "jsonl")):
        assert snapshot(client, f"courier-{name}", content, format)["counters"]["indexed_files"] == 3
        assert "docs/webhooks.md" in paths_found(client, f"courier-{name}", "webhook secret")


def test_inline_files_go_through_s3_as_well(client: StrataClient) -> None:
    opened = client.create_session(
        "courier-inline", files=[{"path": path, "content": text} for path, text in FILES.items()]
    )
    assert opened["upload"] is None
    job = client.wait_for(opened["job"]["job_id"], timeout_s=60)
    assert (job["status"], job["counters"]["indexed_files"]) == ("done", 3)


def test_a_stranger_sees_no_session_no_job_and_no_answer(cloud: LocalCloud, client: StrataClient) -> None:
    job = snapshot(client, "courier-private", tar_gz(FILES))
    token = dev_token(cloud.data_directory, "mallory", tenant="local")
    with StrataClient(cloud.api_url, token) as stranger:
        assert stranger.sessions() == []
        calls = (
            lambda: stranger.session("courier-private"),
            lambda: stranger.jobs("courier-private"),
            lambda: stranger.job(job["job_id"]),
            lambda: list(stranger.job_events(job["job_id"], timeout_s=5)),
            lambda: stranger.retrieve("courier-private", "webhook"),
            lambda: stranger.answer("courier-private", "How do I reset the webhook secret?"),
            lambda: stranger.changes("courier-private", [{"op": "delete", "path": "README.md"}]),
        )
        for call in calls:
            with pytest.raises(StrataApiError) as refused:
                call()
            assert refused.value.status == 404
        with pytest.raises(StrataApiError) as taken:
            stranger.create_session("courier-private")
        assert (taken.value.status, taken.value.code) == (409, "session_name_taken")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        pytest.param("POST", "/api/rag/sessions/nowhere/query", {"question": "x y"}, 404, id="unknown session"),
        pytest.param("GET", "/api/rag/jobs/job-0", None, 404, id="unknown job"),
        pytest.param("POST", "/api/rag/sessions/s/retrieve", {"query": "x", "layers": ["D9"]}, 422, id="unknown layer"),
        pytest.param("POST", "/api/rag/sessions/s/query", {"question": ""}, 422, id="empty question"),
        pytest.param("POST", "/api/rag/sessions/s/query", {"question": "a" * 8_001}, 422, id="huge question"),
        pytest.param("POST", "/api/rag/sessions/s/query", {"question": "!!! ???"}, 422, id="symbols only"),
        pytest.param("POST", "/api/rag/sessions/s/query", {"question": "\u200b"}, 422, id="invisible"),
        pytest.param("POST", "/api/rag/sessions/s/query", {"quest": "x"}, 422, id="unknown field"),
        pytest.param(
            "POST",
            "/api/rag/sessions/s/query",
            b'{"question": "a word", "path_prefixes": ["\\ud800"]}',
            422,
            id="half a character",
        ),
        pytest.param("POST", "/api/rag/sessions/s/query", b'{"question"', 422, id="half a body"),
        pytest.param("POST", "/api/rag/sessions/s/query", [1], 422, id="no object"),
        pytest.param("POST", "/api/rag/sessions", {"session_id": "../x"}, 422, id="a name that is a path"),
        pytest.param("GET", "/api/rag/nothing", None, 404, id="unknown route"),
        pytest.param("DELETE", "/health", None, 404, id="unknown method"),
    ],
)
def test_rubbish_gets_a_code_and_a_sentence(
    cloud: LocalCloud, method: str, path: str, body: object, status: int
) -> None:
    content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    reply = httpx.request(
        method,
        cloud.api_url + path,
        content=content,
        headers={"Content-Type": "application/json"},
        trust_env=False,
        timeout=30,
    )
    assert reply.status_code == status
    error = reply.json()["error"]
    assert error["code"]
    assert error["message"]
    assert "Traceback" not in reply.text


def test_a_reader_in_a_loop_sees_the_old_index_until_the_commit_and_the_new_one_after_it(client: StrataClient) -> None:
    """Each generation's files all hold its number: a mixture would show two of them in one reply."""

    def generation_of(number: int) -> bytes:
        return tar_gz({f"docs/page{page}.md": f"# Page {page}\n\nedition number{number} of it\n" for page in range(12)})

    snapshot(client, "editions", generation_of(1))
    seen: list[set[str]] = []
    stop = threading.Event()

    def read() -> None:
        with StrataClient(client.api_url) as reader:
            while not stop.is_set():
                rows = reader.retrieve("editions", "edition of the page", layers=["D3"], limit=50)["rows"]
                seen.append({word for row in rows for word in row["content"].split() if word.startswith("number")})
                assert len(rows) == 12

    with_faults: list[BaseException] = []

    def guarded() -> None:
        try:
            read()
        except BaseException as fault:
            with_faults.append(fault)

    reader = threading.Thread(target=guarded)
    reader.start()
    try:
        for number in range(2, 6):
            assert snapshot(client, "editions", generation_of(number))["status"] == "done"
    finally:
        stop.set()
        reader.join(timeout=30)
    assert with_faults == []
    assert all(len(editions) == 1 for editions in seen)
    numbers = [int(next(iter(editions)).removeprefix("number")) for editions in seen]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_library_indexes_again_from_the_cache_alone_and_follows_changes(client: StrataClient) -> None:
    files = {
        path.relative_to(LIBRARY).as_posix(): path.read_text("utf-8")
        for package in PACKAGES
        for path in (LIBRARY / package).rglob("*.py")
    }
    archive = tar_gz(files)

    first = snapshot(client, "library", archive)
    assert (first["status"], first["counters"]["failed_files"]) == ("done", 0)
    assert first["counters"]["indexed_files"] + first["counters"]["skipped_files"] == len(files)

    again = snapshot(client, "library", archive)
    assert again["counters"]["cache_miss_files"] == 0
    assert again["counters"]["cache_hit_files"] == first["counters"]["indexed_files"]

    deleted, altered = "asyncio/queues.py", "json/encoder.py"
    queries = ("QueueEmpty QueueFull", "put_nowait", "LifoQueue", "asyncio queues")
    assert all(deleted in paths_found(client, "library", query) for query in queries)
    job = client.changes(
        "library",
        [
            {"op": "delete", "path": deleted},
            {"op": "upsert", "path": altered, "content": files[altered] + "\n\ndef frobnicate_zebra():\n    pass\n"},
        ],
    )
    assert client.wait_for(job["job_id"], timeout_s=120)["status"] == "done"
    for query in queries:
        assert deleted not in paths_found(client, "library", query)
    assert paths_found(client, "library", "frobnicate_zebra")[0] == altered
