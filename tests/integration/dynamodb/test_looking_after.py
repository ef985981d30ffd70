"""What somebody must look after: sessions that wait, late uploads, failed jobs, deleted sessions.

The fake and the DynamoDB adapter keep the same promises.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from strata.errors import JobNotChangeable, LockLost, SessionNotFound
from strata.model.corpus import ReportedFile
from strata.model.jobs import JobStatus
from tests.support.factories import job, job_id
from tests.support.job_kit import LEASE, SESSION, Kit


def waiting(kit: Kit, *, after: timedelta = timedelta()) -> list[str]:
    return kit.jobs.waiting_sessions(kit.clock.now() + after, limit=10)


def test_a_session_waits_from_its_first_accepted_job_until_it_is_released(kit: Kit) -> None:
    accepted = kit.accepted(1)
    assert (waiting(kit), waiting(kit, after=timedelta(seconds=30))) == ([], [SESSION])
    lease = kit.held()
    assert (waiting(kit, after=timedelta(seconds=59)), waiting(kit, after=LEASE)) == ([], [SESSION])
    kit.clock.sleep(20)
    kit.lock.renew(lease, lease=LEASE)
    assert waiting(kit, after=timedelta(seconds=59)) == []
    kit.jobs.start(accepted.job_id, lease)
    kit.done(accepted, lease)
    assert kit.lock.release(lease)
    assert waiting(kit, after=timedelta(days=1)) == []


def test_an_abandoned_session_waits_at_once(kit: Kit) -> None:
    kit.accepted(1)
    kit.lock.abandon(kit.held())
    assert waiting(kit) == [SESSION]
    kit.lock.forget(SESSION)
    assert waiting(kit, after=timedelta(days=1)) == []


def test_only_uploads_that_are_late_are_listed(kit: Kit) -> None:
    until = kit.clock.now() + timedelta(hours=1)
    for number in (1, 2, 3):
        kit.jobs.create(replace(job(job_id(number), session_id=SESSION), upload_until=until))
    kit.jobs.accept(job_id(1), session_id=SESSION, object_version=None, applied_seq=0)
    kit.jobs.cancel(job_id(2))
    assert kit.jobs.late_uploads(until - timedelta(seconds=1), limit=10) == []
    assert [late.job_id for late in kit.jobs.late_uploads(until, limit=10)] == [job_id(3)]


def test_a_failed_job_is_listed_until_it_is_put_back_once(kit: Kit) -> None:
    accepted, lease = kit.accepted(1), kit.held()
    kit.jobs.start(accepted.job_id, lease)
    about = ReportedFile(
        path="hr/страница.md", reason="It is broken.", acl=("user:ann",), named="hr/.gitignore", named_acl=()
    )
    ended = replace(accepted, status=JobStatus.ERROR, error_code="x", error_message="X.", error_about=about)
    kit.jobs.finish(ended, lease)
    (failed,) = kit.jobs.failed(accepted.tenant)
    assert (failed.error_code, failed.error_message, failed.error_about) == ("x", "X.", about)
    assert kit.jobs.failed("other") == []
    kit.jobs.put_back(failed, job(job_id(2), session_id=SESSION))
    assert kit.jobs.failed(accepted.tenant) == []
    stored = kit.jobs.get(accepted.job_id)
    assert stored is not None
    assert stored.retried_as == job_id(2)
    with pytest.raises(JobNotChangeable):
        kit.jobs.put_back(failed, job(job_id(3), session_id=SESSION))
    assert kit.jobs.get(job_id(3)) is None


def test_a_deletion_takes_the_lock_from_its_holder_and_stays_with_the_session(kit: Kit) -> None:
    accepted, lease = kit.accepted(1), kit.held()
    seized = kit.lock.seize(SESSION, owner="delete", lease=LEASE, applied_seq=0, fence=0)
    assert seized.fence > lease.fence
    assert seized.deletion == seized.fence == kit.lock.deletion(SESSION)
    with pytest.raises(LockLost):
        kit.lock.renew(lease, lease=LEASE)
    with pytest.raises(LockLost):
        kit.jobs.start(accepted.job_id, lease)
    kit.jobs.create(job(job_id(2), session_id=SESSION))
    with pytest.raises(SessionNotFound):
        kit.jobs.accept(job_id(2), session_id=SESSION, object_version=None, applied_seq=0)
    kit.lock.abandon(seized)
    kit.lock.forget(SESSION)
    assert waiting(kit) == [SESSION]
    later = kit.held("purger")
    assert (later.deletion, kit.lock.release(later)) == (seized.fence, False)
    kit.lock.remove(later)
    assert kit.lock.deletion(SESSION) is None
    with pytest.raises(LockLost):
        kit.lock.remove(later)


def test_what_is_older_than_the_purge_goes_and_the_rest_stays(kit: Kit) -> None:
    old, new = kit.accepted(1), kit.accepted(100)
    kit.jobs.remove_session(SESSION, before=kit.clock.now() + timedelta(seconds=50))
    kit.jobs.remove_session(SESSION, before=kit.clock.now() + timedelta(seconds=50))
    assert kit.jobs.get(old.job_id) is None
    assert kit.jobs.events_after(old.job_id, 0) == []
    assert kit.jobs.get(new.job_id) == new
    assert len(kit.jobs.events_after(new.job_id, 0)) == 1
