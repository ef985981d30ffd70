"""Who holds a session: leases, fences, and what a lost or restored table means.

The fake and the DynamoDB adapter keep the same promises.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from strata.errors import LockLost
from strata.storage.dynamodb.jobs import DynamoJobStore
from tests.support.factories import job_id
from tests.support.fake_jobs import FakeJobStore
from tests.support.job_kit import LEASE, SESSION, Kit


def test_an_emptied_table_goes_on_after_what_postgres_has_applied(kit: Kit) -> None:
    accepted = kit.accepted(1, applied_seq=41)
    assert accepted.seq == 42
    lease = kit.held(applied_seq=41)
    assert kit.jobs.next_queued(SESSION) == accepted
    kit.done(accepted, lease)
    assert kit.jobs.next_queued(SESSION) is None
    assert kit.lock.release(lease)


def test_a_restored_table_skips_what_postgres_has_applied_already(kit: Kit) -> None:
    kit.accepted(1)
    newer = kit.accepted(2, applied_seq=7)
    assert newer.seq == 8
    assert kit.jobs.next_queued(SESSION) == newer


def test_acquiring_seeds_the_order_too(kit: Kit) -> None:
    lease = kit.held(applied_seq=12)
    assert kit.jobs.next_queued(SESSION) is None
    assert kit.lock.release(lease)
    assert kit.accepted(1, applied_seq=12).seq == 13


def test_the_lock_is_held_by_one(kit: Kit) -> None:
    held = kit.held("a")
    assert kit.acquire("b") is None
    kit.lock.release(held)
    assert kit.held("b").fence > held.fence


def test_of_parallel_acquires_one_wins(kit: Kit) -> None:
    with ThreadPoolExecutor(8) as pool:
        leases = list(pool.map(lambda n: kit.acquire(f"worker-{n}"), range(8)))
    assert len([lease for lease in leases if lease is not None]) == 1


def test_acquiring_again_after_a_lost_reply_gives_the_same_lease(kit: Kit) -> None:
    assert kit.held("a") == kit.held("a")


def test_a_dead_holder_is_followed_after_its_lease_and_a_margin(kit: Kit) -> None:
    dead = kit.held("dead")
    kit.clock.sleep(60.5)
    assert kit.acquire("next") is None
    kit.clock.sleep(2)
    assert kit.held("next").fence > dead.fence


def test_a_renewed_lease_lasts(kit: Kit) -> None:
    held = kit.held("a")
    kit.clock.sleep(50)
    renewed = kit.lock.renew(held, lease=LEASE)
    assert renewed.expires_at > held.expires_at
    assert renewed.fence == held.fence
    kit.clock.sleep(50)
    assert kit.acquire("b") is None


def test_an_expired_lease_is_renewed_as_long_as_nobody_took_over(kit: Kit) -> None:
    held = kit.held("a")
    kit.clock.sleep(100)
    kit.lock.renew(held, lease=LEASE)
    assert kit.acquire("b") is None


def test_a_lost_lock_is_neither_renewed_nor_released(kit: Kit) -> None:
    paused = kit.held("paused")
    kit.clock.sleep(63)
    holder = kit.held("holder")
    with pytest.raises(LockLost):
        kit.lock.renew(paused, lease=LEASE)
    assert kit.lock.release(paused)
    kit.lock.abandon(paused)
    assert kit.acquire("third") is None
    assert kit.lock.renew(holder, lease=LEASE).fence == holder.fence


def test_a_released_lock_is_not_renewed(kit: Kit) -> None:
    held = kit.held("a")
    assert kit.lock.release(held)
    with pytest.raises(LockLost):
        kit.lock.renew(held, lease=LEASE)


def test_a_lock_is_not_released_while_a_job_waits(kit: Kit) -> None:
    held = kit.held("a")
    found = kit.accepted(1)
    assert not kit.lock.release(held)
    assert kit.acquire("b") is None
    kit.done(found, held)
    assert kit.lock.release(held)


def test_an_abandoned_lock_is_free_whatever_waits(kit: Kit) -> None:
    held = kit.held("a")
    kit.accepted(1)
    kit.lock.abandon(held)
    assert kit.held("b").fence > held.fence


def test_fences_grow_beyond_time_and_beyond_postgres(kit: Kit) -> None:
    first = kit.held("a")
    assert first.fence >= int(kit.clock.now().timestamp() * 1000)
    kit.lock.release(first)
    far = first.fence + 1_000_000
    second = kit.acquire("b", fence=far)
    assert second is not None
    assert second.fence == far + 1


def test_the_session_goes_on_when_a_job_of_its_order_is_gone(kit: Kit) -> None:
    lease = kit.held()
    kit.accepted(1)
    kept = kit.accepted(2)
    if isinstance(kit.jobs, FakeJobStore):
        del kit.jobs.table.jobs[job_id(1)]
    elif isinstance(kit.jobs, DynamoJobStore):
        table = kit.jobs.table
        table.client.delete_item(TableName=table.name, Key={"pk": {"S": f"job#{job_id(1)}"}, "sk": {"S": "job"}})
    assert kit.jobs.next_queued(SESSION) == kept
    kit.done(kept, lease)
    assert kit.lock.release(lease)


def test_a_lost_order_is_rebuilt_from_the_places_that_were_given_out(kit: Kit) -> None:
    first, second = kit.accepted(1), kit.accepted(2)
    if isinstance(kit.jobs, FakeJobStore):
        kit.jobs.table.sessions.clear()
    elif isinstance(kit.jobs, DynamoJobStore):
        table = kit.jobs.table
        table.client.delete_item(TableName=table.name, Key={"pk": {"S": f"session#{SESSION}"}, "sk": {"S": "order"}})
    third = kit.accepted(3, applied_seq=1)
    assert (first.seq, third.seq) == (1, 3)
    assert kit.jobs.next_queued(SESSION) == second
