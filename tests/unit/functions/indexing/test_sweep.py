"""The sweep follows workers that died, notifications that were lost and uploads that never came."""

from __future__ import annotations

from tests.support.indexing_cloud import Cloud, opened


def test_the_sweep_calls_a_worker_where_work_waits_and_nobody_is_at_it(cloud: Cloud) -> None:
    opened(cloud)
    job = cloud.change({"changes": [{"op": "delete", "path": "a"}]}).json["job"]
    nothing = {"sessions": 0, "found_uploads": 0, "expired": 0, "failures": 0}
    assert cloud.changes.sweep({}, None) == nothing  # its notification is still on its way
    cloud.clock.sleep(60)
    assert cloud.changes.sweep({}, None) == nothing | {"sessions": 1}
    cloud.obey()
    assert cloud.get(job["links"]["self"]).json["status"] == "done"
    assert cloud.changes.sweep({}, None) == nothing


def test_an_upload_that_never_came_expires_with_a_terminal_event_and_blocks_nobody(cloud: Cloud) -> None:
    job = opened(cloud)["job"]
    changed = cloud.change({"changes": [{"op": "delete", "path": "a"}]}).json["job"]
    cloud.upload(f"changes/docs/{changed['job_id']}.jsonl")
    assert cloud.get(changed["links"]["self"]).json["status"] == "done"
    cloud.clock.sleep(60 + 15 * 60 - 1)
    assert cloud.changes.sweep({}, None)["expired"] == 0
    cloud.clock.sleep(2)
    assert cloud.changes.sweep({}, None)["expired"] == 1
    ended = cloud.get(job["links"]["self"]).json
    assert (ended["status"], ended["error"]["code"], ended["seq"]) == ("expired", "upload_expired", None)
    assert "event: terminal" in cloud.get(job["links"]["events"], query={"wait_s": "0"}).body
    assert cloud.changes.sweep({}, None)["expired"] == 0


def test_an_upload_whose_notification_was_lost_is_found(cloud: Cloud) -> None:
    answer = opened(cloud)
    cloud.objects.objects[answer["upload"]["key"]] = b"x"
    cloud.clock.sleep(3_600)
    assert cloud.changes.sweep({}, None)["found_uploads"] == 1
    cloud.obey()
    assert cloud.get(answer["job"]["links"]["self"]).json["status"] == "done"


def test_a_worker_that_can_not_be_called_is_called_by_the_next_sweep(cloud: Cloud) -> None:
    from strata.errors import StoreUnavailable

    opened(cloud)
    cloud.change({"changes": [{"op": "delete", "path": "a"}]})
    cloud.clock.sleep(60)
    cloud.calls.error = StoreUnavailable()
    assert cloud.changes.sweep({}, None)["failures"] == 1
    cloud.calls.error = None
    assert cloud.changes.sweep({}, None)["sessions"] == 1
