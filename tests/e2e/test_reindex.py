"""New indexes, the state machine and roll-back through the whole local cloud."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from strata_client.client import StrataClient
from strata_client.wire import JobView
from strata_local.stack import STACK_NAME
from strata_local.up import LocalCloud
from tests.support.courier import FILES, paths_found, snapshot, tar_gz

pytestmark = pytest.mark.e2e

MACHINE = f"arn:aws:states:us-east-1:123456789012:stateMachine:{STACK_NAME}-reindex"
NEW_FILES = {"docs/new.md": "# Parcels\n\nA parcel is weighed twice.\n", "docs/webhooks.md": FILES["docs/webhooks.md"]}


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCloud(Path(folder), port=0, environment={"STRATA_EMBEDDER": "hashed", "STRATA_LEASE_S": "10"}) as started,
    ):
        yield started


@pytest.fixture
def client(cloud: LocalCloud) -> Iterator[StrataClient]:
    with StrataClient(cloud.api_url) as made:
        yield made


@pytest.fixture
def states(cloud: LocalCloud) -> Any:
    environment = cloud.environment
    return boto3.client(
        "stepfunctions",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name=environment["AWS_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
    )


def reindex(client: StrataClient, session: str, archive: bytes, *, timeout_s: float = 120) -> JobView:
    with tempfile.NamedTemporaryFile(suffix=".tar.gz") as file:
        file.write(archive)
        file.flush()
        opened = client.create_session(session, format="tar.gz", reindex=True)
        assert opened["upload"] is not None
        client.upload(opened["upload"], Path(file.name))
        return client.wait_for(opened["job"]["job_id"], timeout_s=timeout_s)


def execution_of(states: Any, job: JobView) -> dict[str, Any]:
    """The job's execution, once it has ended."""
    arn = f"{MACHINE.replace(':stateMachine:', ':execution:')}:{job['job_id']}"
    for _ in range(200):
        described: dict[str, Any] = states.describe_execution(executionArn=arn)
        if described["status"] != "RUNNING":
            return described
        time.sleep(0.1)
    raise AssertionError(f"{job['job_id']} still runs")


def states_of(states: Any, execution: dict[str, Any]) -> list[str]:
    events = states.get_execution_history(executionArn=execution["executionArn"])["events"]
    return [event["stateEnteredEventDetails"]["name"] for event in events if "stateEnteredEventDetails" in event]


def test_a_requested_reindex_runs_as_an_execution_named_by_its_job(client: StrataClient, states: Any) -> None:
    snapshot(client, "states", tar_gz(FILES))
    job = reindex(client, "states", tar_gz(NEW_FILES))

    assert job["status"] == "done", job
    counters = job["counters"]
    assert (counters["indexed_files"], counters["cache_hit_files"], counters["cache_miss_files"]) == (2, 1, 1)
    assert counters["deleted_files"] == 2
    execution = execution_of(states, job)
    assert execution["status"] == "SUCCEEDED"
    assert json.loads(execution["input"]) == {"job_id": job["job_id"], "session_id": "states"}
    assert states_of(states, execution)[:4] == ["Plan", "WhatIsThere", "Prepare", "Fill"]
    assert "docs/new.md" in paths_found(client, "states", "How often is a parcel weighed?")
    assert "src/delivery.py" not in paths_found(client, "states", "deliver_webhook MAX_ATTEMPTS payload")

    again = reindex(client, "states", tar_gz(NEW_FILES))
    assert again["status"] == "done"
    assert "Prepare" not in states_of(states, execution_of(states, again))


def test_a_roll_back_brings_the_files_before_back(client: StrataClient) -> None:
    snapshot(client, "back", tar_gz(FILES))
    assert reindex(client, "back", tar_gz(NEW_FILES))["status"] == "done"
    job = client.wait_for(client.roll_back("back")["job_id"], timeout_s=60)
    assert (job["status"], job["kind"]) == ("done", "rollback")
    assert "src/delivery.py" in paths_found(client, "back", "deliver_webhook MAX_ATTEMPTS payload")
    assert "docs/new.md" not in paths_found(client, "back", "How often is a parcel weighed?")


def test_a_roll_back_without_an_index_before_is_an_error_of_the_job(client: StrataClient) -> None:
    snapshot(client, "only-one", tar_gz(FILES))
    job = client.wait_for(client.roll_back("only-one")["job_id"], timeout_s=60)
    assert (job["status"], job["error"] and job["error"]["code"]) == ("error", "no_earlier_index")


def test_an_upload_that_can_not_be_read_ends_the_job_and_frees_the_session(client: StrataClient, states: Any) -> None:
    snapshot(client, "broken", tar_gz(FILES))
    job = reindex(client, "broken", b"no archive at all")
    assert (job["status"], job["error"] and job["error"]["code"]) == ("error", "corrupt_archive")
    execution = execution_of(states, job)
    assert (execution["status"], execution["error"]) == ("FAILED", "CorruptArchive")
    assert "src/delivery.py" in paths_found(client, "broken", "deliver_webhook MAX_ATTEMPTS payload")
    change = client.changes("broken", [{"op": "delete", "path": "src/delivery.py"}])
    assert client.wait_for(change["job_id"], timeout_s=60)["status"] == "done"


def test_jobs_that_wait_behind_an_execution_are_worked_on_in_order(client: StrataClient) -> None:
    snapshot(client, "behind", tar_gz(FILES))
    done: list[JobView] = []
    running = threading.Thread(target=lambda: done.append(reindex(client, "behind", tar_gz(NEW_FILES))))
    running.start()
    while len(client.jobs("behind")) < 2 or client.jobs("behind")[0]["status"] == "awaiting_upload":
        time.sleep(0.02)
    with StrataClient(client.api_url) as other:
        change = other.changes(
            "behind", [{"op": "upsert", "path": "docs/late.md", "content": "# Late\n\nCame after.\n"}]
        )
        later = other.wait_for(change["job_id"], timeout_s=120)
    running.join()
    assert (done[0]["status"], later["status"]) == ("done", "done")
    assert [done[0]["seq"], later["seq"]] == [2, 3]
    assert {"docs/late.md", "docs/new.md"} <= set(paths_found(client, "behind", "late parcel came after"))


def test_an_execution_that_is_stopped_ends_its_job(client: StrataClient, states: Any) -> None:
    snapshot(client, "stopped", tar_gz(FILES))
    many = {f"docs/{n}.md": f"# Page {n}\n\nText {n}.\n" for n in range(1_500)}
    with tempfile.NamedTemporaryFile(suffix=".tar.gz") as file:
        file.write(tar_gz(many))
        file.flush()
        opened = client.create_session("stopped", format="tar.gz", reindex=True)
        assert opened["upload"] is not None
        client.upload(opened["upload"], Path(file.name))
    arn = f"{MACHINE.replace(':stateMachine:', ':execution:')}:{opened['job']['job_id']}"
    stopped = False
    while not stopped:
        try:
            states.stop_execution(executionArn=arn)
            stopped = True
        except states.exceptions.ExecutionDoesNotExist:
            time.sleep(0.01)
    job = client.wait_for(opened["job"]["job_id"], timeout_s=120)
    assert (job["status"], job["error"] and job["error"]["code"]) == ("error", "execution_failed")
    assert "src/delivery.py" in paths_found(client, "stopped", "deliver_webhook MAX_ATTEMPTS payload")
    change = client.changes("stopped", [{"op": "delete", "path": "src/delivery.py"}])
    assert client.wait_for(change["job_id"], timeout_s=120)["status"] == "done"


def test_readers_see_one_index_or_the_other_while_executions_swap_them(client: StrataClient) -> None:
    versions = [{f"docs/{name}-{n}.md": f"# Page\n\nCommon text {n}.\n" for n in range(5)} for name in "ab"]
    snapshot(client, "swapped", tar_gz(versions[0]))
    over, faults = threading.Event(), list[str]()

    def read() -> None:
        with StrataClient(client.api_url) as reader:
            while not over.is_set():
                paths = set(paths_found(reader, "swapped", "common text page"))
                if len(paths) != 5 or len({path[5] for path in paths}) != 1:
                    faults.append(str(sorted(paths)))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for turn in range(1, 4):
            assert reindex(client, "swapped", tar_gz(versions[turn % 2]))["status"] == "done"
    finally:
        over.set()
        thread.join()
    assert faults == []
