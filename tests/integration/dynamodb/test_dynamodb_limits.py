from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from strata.errors import ConfigurationError, Conflict, StoreUnavailable
from strata.model.corpus import ReportedFile
from strata.model.jobs import DeadLetter, JobReport, JobStatus
from strata.storage.aws import aws_client, aws_errors
from strata.storage.dynamodb.client import Table, to_attributes
from strata.storage.dynamodb.job_items import capped
from strata.storage.dynamodb.jobs import DynamoJobStore
from strata.storage.dynamodb.lock import DynamoSessionLock
from tests.support.factories import job
from tests.support.fake_clock import FakeClock


@pytest.fixture
def table(dynamodb: Any, jobs_table: str) -> Table:
    return Table(client=dynamodb, name=jobs_table)


@pytest.mark.parametrize(
    "path",
    [pytest.param("d/" + "x" * 990, id="long paths"), pytest.param("д" * 990, id="two bytes a character")],
)
def test_a_report_of_a_hundred_thousand_files_fits_into_an_item(table: Table, path: str) -> None:
    clock = FakeClock()
    store, lock = DynamoJobStore(table=table, clock=clock), DynamoSessionLock(table=table, clock=clock)
    files = tuple(ReportedFile(path=f"{path}{n}", reason="\x00 " * 5_000) for n in range(100_000))
    store.create(job())
    accepted = store.accept(job().job_id, session_id="docs", object_version=None, applied_seq=0)
    lease = lock.acquire("docs", owner="a", lease=timedelta(seconds=60), applied_seq=0, fence=0)
    assert lease is not None
    report = JobReport(skipped=files, failed=files, notes=files)
    store.finish(
        replace(accepted, status=JobStatus.ERROR, report=report, error_code="x", error_message="y" * 10**6), lease
    )
    item = table.get({"pk": f"job#{job().job_id}", "sk": "job"})
    assert item is not None
    assert len(json.dumps(item, ensure_ascii=False).encode()) < 120_000
    stored = store.get(job().job_id)
    assert stored is not None
    assert stored.report.skipped


def test_a_capped_list_keeps_the_first_files_in_their_order() -> None:
    files = [ReportedFile(path=f"{n}.md", reason="empty") for n in range(1_000)]
    assert [entry["path"] for entry in capped(files)] == [f"{n}.md" for n in range(200)]


def test_jobs_and_events_expire_and_the_sessions_item_does_not(table: Table) -> None:
    clock = FakeClock()
    store = DynamoJobStore(table=table, clock=clock, keep=timedelta(days=1))
    store.create(job())
    store.accept(job().job_id, session_id="docs", object_version=None, applied_seq=0)
    tomorrow_s = int(clock.now().timestamp()) + 86_400
    for key in ("job", "event#00000001"):
        item = table.get({"pk": f"job#{job().job_id}", "sk": key})
        assert item is not None
        assert item["expires_at"] == tomorrow_s
    order = table.get({"pk": "session#docs", "sk": "order"})
    assert order is not None
    assert "expires_at" not in order


def test_a_dead_letter_is_kept_with_its_whole_key(table: Table) -> None:
    key = "uploads/" + "ж" * 500
    clock = FakeClock()
    store = DynamoJobStore(table=table, clock=clock)
    letter = DeadLetter(
        letter_id="letter-1", object_key=key, object_version="v", reason="no session", created_at=clock.now()
    )
    for _ in range(3):
        store.dead_letter(letter)
    assert store.dead_letters(None) == [letter]
    assert store.get_dead_letter("letter-1") == letter
    store.remove_dead_letter("letter-1")
    assert store.dead_letters(None) == []


def test_a_query_reads_every_page(table: Table) -> None:
    for number in range(12):
        table.put({"pk": "many", "sk": f"{number:02d}", "text": "x" * 150_000})  # DynamoDB's pages end at 1 MB
    assert [item["sk"] for item in table.query("pk = :pk", {":pk": "many"})] == [f"{n:02d}" for n in range(12)]
    assert len(table.query("pk = :pk", {":pk": "many"}, limit=9)) == 9


def test_a_table_that_is_not_there_is_a_fault_of_the_settings(dynamodb: Any) -> None:
    store = DynamoJobStore(table=Table(client=dynamodb, name="no-such-table"), clock=FakeClock())
    with pytest.raises(ConfigurationError, match="DynamoDB"):
        store.get("job-1")


def test_a_server_that_is_not_there_is_a_passing_fault(aws_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable, match="EndpointConnectionError"):
        Table(client=aws_client("dynamodb"), name="jobs").get({"pk": "a", "sk": "b"})


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        pytest.param("ThrottlingException", 400, StoreUnavailable, id="throttled"),
        pytest.param("ProvisionedThroughputExceededException", 400, StoreUnavailable, id="over capacity"),
        pytest.param("SlowDown", 503, StoreUnavailable, id="S3 says slow down"),
        pytest.param("Whatever", 500, StoreUnavailable, id="their fault"),
        pytest.param("AccessDeniedException", 400, ConfigurationError, id="no right"),
        pytest.param("ValidationException", 400, ClientError, id="our fault"),
    ],
)
def test_an_aws_error_is_translated_by_what_can_be_done_about_it(
    code: str, status: int, expected: type[Exception]
) -> None:
    response: Any = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(expected), aws_errors("DynamoDB"):
        raise ClientError(response, "GetItem")


def test_another_writers_transaction_is_waited_out(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DynamoJobStore(table=table, clock=FakeClock())
    sent = table.client.put_item
    answers: list[str] = ["TransactionConflictException", "TransactionConflictException"]

    def conflicting(**request: Any) -> Any:
        if answers:
            response: Any = {
                "Error": {"Code": answers.pop(), "Message": "m"},
                "ResponseMetadata": {"HTTPStatusCode": 400},
            }
            raise ClientError(response, "PutItem")
        return sent(**request)

    monkeypatch.setattr(table.client, "put_item", conflicting)
    store.create(job())
    assert store.get(job().job_id) == job()
    assert to_attributes({"n": 1}) == {"n": {"N": "1"}}


class Repeating:
    """A client whose replies to single writes get lost once, so that botocore sends each of them twice."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if name not in ("put_item", "update_item", "delete_item"):
            return call

        def twice(**parameters: Any) -> Any:
            call(**parameters)
            return call(**parameters)

        return twice


def test_a_write_that_is_sent_twice_is_no_conflict_with_itself(table: Table) -> None:
    clock = FakeClock()
    repeating = Table(client=Repeating(table.client), name=table.name)
    store, lock = DynamoJobStore(table=repeating, clock=clock), DynamoSessionLock(table=repeating, clock=clock)
    store.create(job())
    with pytest.raises(Conflict):
        store.create(job())
    accepted = store.accept(job().job_id, session_id="docs", object_version=None, applied_seq=0)
    lease = lock.acquire("docs", owner="a", lease=timedelta(seconds=60), applied_seq=0, fence=0)
    assert lease is not None
    store.start(accepted.job_id, lease)
    store.hand_over(accepted.job_id, lease)
    assert store.start(accepted.job_id, lease).starts == 1
    store.begin_commit(accepted.job_id, lease)
    store.finish(replace(accepted, status=JobStatus.DONE), lease)
    assert lock.release(lock.renew(lease, lease=timedelta(seconds=60)))
