"""The functions on real adapters: Postgres, and S3 and DynamoDB as moto speaks them; only the embedder is `hashed`."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import httpx
import psycopg
import pytest

from strata.bootstrap import stores
from strata.errors import HandedOver, StoreUnavailable
from tests.support.built import forget_what_was_built
from tests.support.lambda_events import LambdaContext, Reply, call, load_function, rest_event, s3_event
from tests.support.postgres import TestDatabase

FILES = {"docs/guide.md": b"# Guide\n\nThe boiler holds 90 litres.\n", "src/app.py": b"def answer():\n    return 42\n"}


def archive(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@dataclass
class Stack:
    snapshot: ModuleType
    changes: ModuleType
    status: ModuleType
    database: TestDatabase
    s3: Any
    dynamodb: Any
    bucket: str
    jobs_table: str

    def open(self, **body: Any) -> dict[str, Any]:
        reply = call(self.snapshot.http, rest_event("POST", "/api/rag/sessions", body={"session_id": "docs", **body}))
        assert reply.status in (200, 201), reply.body
        answer: dict[str, Any] = reply.json
        return answer

    def change(self, *changes: dict[str, Any]) -> dict[str, Any]:
        event = rest_event("POST", "/api/rag/sessions/docs/changes", body={"changes": list(changes)})
        reply = call(self.changes.http, event)
        assert reply.status == 202, reply.body
        job: dict[str, Any] = reply.json["job"]
        return job

    def post(self, upload: Mapping[str, Any], content: bytes) -> None:
        sent = httpx.post(upload["url"], data=upload["fields"], files={"file": ("snapshot", content)})
        assert sent.is_success

    def notify(self, key: str, context: LambdaContext = LambdaContext()) -> None:  # noqa: B008 - frozen
        head = self.s3.head_object(Bucket=self.bucket, Key=key)
        event = s3_event(key, size=head["ContentLength"], version=head["VersionId"])
        (self.snapshot.on_upload if key.startswith("uploads/") else self.changes.on_changes)(event, context)

    def key_of(self, job: Mapping[str, Any]) -> str:
        return f"changes/docs/{job['job_id']}.jsonl"

    def snapshot_of(self, files: Mapping[str, bytes]) -> dict[str, Any]:
        answer = self.open()
        self.post(answer["upload"], archive(files))
        self.notify(answer["upload"]["key"])
        return self.job(answer["job"])

    def get(self, path: str, **event: Any) -> Reply:
        return call(self.status.http, rest_event("GET", path, **event))

    def job(self, job: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.get(job["links"]["self"]).json
        return found

    def session(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/api/rag/sessions/docs").json
        return found

    def paths(self) -> list[str]:
        with psycopg.connect(self.database.owner_url) as connection:
            rows = connection.execute("SELECT path FROM rag_session_chunk_map WHERE session_id = 'docs' ORDER BY path")
            return [path for (path,) in rows.fetchall()]

    def order(self) -> dict[str, Any]:
        item = self.dynamodb.get_item(
            TableName=self.jobs_table, Key={"pk": {"S": "session#docs"}, "sk": {"S": "order"}}, ConsistentRead=True
        )["Item"]
        return {name: next(iter(value.values())) for name, value in item.items()}


@pytest.fixture(scope="module")
def modules() -> tuple[ModuleType, ModuleType, ModuleType]:
    return load_function("index_snapshot"), load_function("index_changes"), load_function("job_status")


@pytest.fixture
def stack(  # noqa: PLR0917 - pytest passes fixtures by name
    modules: tuple[ModuleType, ModuleType, ModuleType],
    postgres: TestDatabase,
    s3: Any,
    dynamodb: Any,
    bucket: str,
    jobs_table: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stack]:
    values = {
        "STRATA_DATABASE_URL": postgres.index_url,
        "STRATA_BUCKET": bucket,
        "STRATA_JOBS_TABLE": jobs_table,
        "STRATA_CACHE_TABLE": "unused",
        "STRATA_WORKER_FUNCTION": "not-there",
        "STRATA_EMBEDDER": "hashed",
        "STRATA_MAX_ARCHIVE_BYTES": "100000",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    forget_what_was_built()
    yield Stack(*modules, postgres, s3, dynamodb, bucket, jobs_table)
    stores.database().close()
    forget_what_was_built()


def test_drift_is_told_after_a_change_has_removed_what_a_document_names(stack: Stack) -> None:
    guide = b"# Guide\n\nThe answer is in `src/app.py`.\n"
    stack.snapshot_of({"docs/guide.md": guide, "src/app.py": FILES["src/app.py"], "src/b.py": b"x = 1\n"})
    assert stack.get("/api/rag/sessions/docs/drift").json["drift"] == []
    stack.notify(stack.key_of(stack.change({"op": "delete", "path": "src/app.py"})))
    assert stack.get("/api/rag/sessions/docs/drift").json["drift"] == [
        {"path": "docs/guide.md", "line": 3, "kind": "file", "name": "src/app.py", "known": None}
    ]


def test_a_snapshot_becomes_rows_and_changes_alter_them(stack: Stack) -> None:
    job = stack.snapshot_of(FILES)
    assert (job["status"], job["seq"], job["generation"], job["error"]) == ("done", 1, 1, None)
    assert job["counters"] | {"chunks": 0} == {
        "indexed_files": 2,
        "failed_files": 0,
        "cache_hit_files": 0,
        "cache_miss_files": 2,
        "skipped_files": 0,
        "deleted_files": 0,
        "chunks": 0,
    }
    assert job["chunks"] > 0

    changed = stack.change(
        {"op": "delete", "path": "src/app.py"}, {"op": "upsert", "path": "new file+1.md", "content": "# New\n\nText.\n"}
    )
    stack.notify(stack.key_of(changed))
    changed = stack.job(changed)
    assert (changed["status"], changed["seq"], changed["generation"]) == ("done", 2, 2)
    assert (changed["counters"]["indexed_files"], changed["counters"]["deleted_files"]) == (1, 1)
    assert stack.paths() == ["docs/guide.md", "new file+1.md"]
    assert stack.session()["generation"] == 2


def test_events_tell_the_way_from_queued_to_the_end(stack: Stack) -> None:
    job = stack.snapshot_of(FILES)
    reply = stack.get(job["links"]["events"], query={"wait_s": "0"})
    data = [json.loads(line.removeprefix("data: ")) for line in reply.body.splitlines() if line.startswith("data: ")]
    assert [event["phase"] for event in data[:2]] == ["queued", "reading"]
    assert data[-2]["phase"] == "committing"
    assert data[-1] == job


def test_a_notification_delivered_three_times_commits_once(stack: Stack) -> None:
    answer = stack.open()
    stack.post(answer["upload"], archive(FILES))
    for _ in range(3):
        stack.notify(answer["upload"]["key"])
    assert stack.job(answer["job"])["counters"]["indexed_files"] == 2
    assert stack.session()["generation"] == 1


def test_a_lost_end_is_made_up_without_a_second_commit(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = stack.open()
    stack.post(answer["upload"], archive(FILES))
    store = stores.job_store()

    def lost(*_: object) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as broken:
        broken.setattr(type(store), "finish", lost)
        broken.setattr("time.sleep", lambda _: None)
        with pytest.raises(StoreUnavailable):
            stack.notify(answer["upload"]["key"])
    assert stack.job(answer["job"])["status"] == "running"
    stack.notify(answer["upload"]["key"])
    job = stack.job(answer["job"])
    assert (job["status"], job["counters"]["indexed_files"], job["counters"]["cache_miss_files"]) == ("done", 2, 2)
    assert (stack.session()["generation"], stack.order()["accepted_seq"], stack.order()["done_seq"]) == (1, "1", "1")


def test_a_hand_over_goes_on_where_it_stopped(stack: Stack) -> None:
    answer = stack.open()
    stack.post(answer["upload"], archive(FILES))
    with pytest.raises(HandedOver):
        stack.notify(answer["upload"]["key"], replace(LambdaContext(), remaining_ms=5_000))
    assert stack.job(answer["job"])["status"] == "queued"
    stack.notify(answer["upload"]["key"])
    assert stack.job(answer["job"])["status"] == "done"


def test_an_emptied_jobs_table_does_not_block_a_session(stack: Stack) -> None:
    stack.snapshot_of(FILES)
    for item in stack.dynamodb.scan(TableName=stack.jobs_table)["Items"]:
        stack.dynamodb.delete_item(TableName=stack.jobs_table, Key={"pk": item["pk"], "sk": item["sk"]})
    job = stack.snapshot_of({"docs/guide.md": FILES["docs/guide.md"]})
    assert (job["status"], job["seq"], job["generation"]) == ("done", 2, 2)
    assert stack.paths() == ["docs/guide.md"]


BAD_UPLOADS: dict[str, tuple[Callable[[], bytes], str]] = {
    "not an archive": (lambda: b"rubbish", "corrupt_archive"),
    "cut off": (lambda: archive(FILES)[:-20], "corrupt_archive"),
    "a path that leaves the project": (lambda: archive({"../x.md": b"# X\n"}), "unsafe_entry"),
    "larger than accepted": (lambda: b"x" * 100_001, "upload_too_large"),
}


@pytest.mark.parametrize(("content", "code"), BAD_UPLOADS.values(), ids=BAD_UPLOADS.keys())
def test_a_bad_upload_ends_its_job_and_the_old_index_stays(
    stack: Stack, content: Callable[[], bytes], code: str
) -> None:
    stack.snapshot_of(FILES)
    answer = stack.open()
    # moto takes what a presigned post would refuse, as S3 takes what comes with other credentials.
    stack.s3.put_object(Bucket=stack.bucket, Key=answer["upload"]["key"], Body=content())
    stack.notify(answer["upload"]["key"])
    job = stack.job(answer["job"])
    assert (job["status"], job["error"]["code"], job["generation"]) == ("error", code, None)
    assert job["error"]["message"]
    assert stack.paths() == sorted(FILES)
    assert (stack.session()["generation"], stack.order()["lease_until_ms"]) == (1, "0")
    assert stack.snapshot_of(FILES)["status"] == "done"


def test_twenty_parallel_requests_are_worked_one_after_another(stack: Stack) -> None:
    """A public report's case 56, with senders and workers that are threads; `tests/e2e/test_order.py` has it with a
    process for each.
    """
    stack.snapshot_of({})
    together = threading.Barrier(20)

    def request(number: int) -> None:
        asyncio.set_event_loop(loop := asyncio.new_event_loop())  # Mangum wants one in its thread
        together.wait()
        job = stack.change({"op": "upsert", "path": "shared.md", "content": f"# Number {number}\n"})
        loop.close()
        stack.notify(stack.key_of(job))

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(request, range(20)))
    jobs = stack.get("/api/rag/sessions/docs/jobs").json["jobs"]
    assert {job["status"] for job in jobs} == {"done"}
    assert sorted(job["seq"] for job in jobs) == list(range(1, 22))
    assert [job["generation"] for job in sorted(jobs, key=lambda job: job["seq"])] == list(range(1, 22))
    with psycopg.connect(stack.database.owner_url) as connection:
        texts = connection.execute("SELECT DISTINCT blob_sha FROM rag_chunks WHERE path = 'shared.md'").fetchall()
    assert len(texts) == 1
    assert stack.order()["accepted_seq"] == stack.order()["done_seq"] == "21"
