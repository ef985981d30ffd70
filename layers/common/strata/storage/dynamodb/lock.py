"""`SessionLock` in DynamoDB: a lease with a fence, on the item that also holds the session's order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from strata.errors import LockLost
from strata.model.jobs import Lease
from strata.ports import Clock
from strata.storage.dynamodb.client import Refused, Table, Write, contention_pauses
from strata.storage.dynamodb.order import order_key, read_order

TAKEOVER_MARGIN = timedelta(seconds=2)
"""How long after its end a lease is still respected: clocks of two workers may differ by that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoSessionLock:
    """The holder is known by owner and fence together; an owner's name must be unique to one invocation.

    An expired lease that nobody has taken over can still be renewed: leaving it would help nobody, and the fence
    tells whether somebody has. A released one can't.
    """

    table: Table
    clock: Clock

    def acquire(self, session_id: str, *, owner: str, lease: timedelta, applied_seq: int, fence: int) -> Lease | None:
        for _ in contention_pauses():
            order = read_order(self.table, session_id, applied_seq=applied_seq)
            now = self.clock.now()
            if order.lease_until_ms > _epoch_ms(now - TAKEOVER_MARGIN):
                if order.lock_owner != owner:
                    return None
                # Ours already: the reply to an earlier try was lost.
                return Lease(
                    session_id=session_id, owner=owner, fence=order.fence, expires_at=_time(order.lease_until_ms)
                )
            new_fence = max(order.fence + 1, _epoch_ms(now), fence + 1)
            until_ms = _epoch_ms(now + lease)
            values = {"lock_owner": owner, "lease_until_ms": until_ms, "fence": new_fence}
            try:
                self.table.write(order.write(session_id, values))
            except Refused:
                continue  # somebody was faster: look who
            return Lease(session_id=session_id, owner=owner, fence=new_fence, expires_at=_time(until_ms))
        raise AssertionError("unreachable: the pauses end with an error")

    def renew(self, held: Lease, *, lease: timedelta) -> Lease:
        until_ms = _epoch_ms(self.clock.now() + lease)
        try:
            self._write(held, "SET lease_until_ms = :until", "lease_until_ms > :zero", {":until": until_ms, ":zero": 0})
        except Refused as error:
            raise LockLost from error
        return replace(held, expires_at=_time(until_ms))

    def release(self, held: Lease) -> bool:
        """True also when the lock is no longer ours: then there is nothing left to release."""
        try:
            self._free(held, "accepted_seq = done_seq")
        except Refused:
            order = read_order(self.table, held.session_id)
            return not order.stored or (order.lock_owner, order.fence) != (held.owner, held.fence)
        return True

    def abandon(self, held: Lease) -> None:
        try:
            self._free(held, "attribute_exists(pk)")
        except Refused:
            return  # no longer ours

    def _free(self, held: Lease, condition: str) -> None:
        # The item stays: with it would go the fence.
        self._write(held, "SET lease_until_ms = :zero REMOVE lock_owner", condition, {":zero": 0})

    def _write(self, held: Lease, expression: str, condition: str, values: dict[str, int]) -> None:
        self.table.write(
            Write(
                key=order_key(held.session_id),
                expression=expression,
                condition=f"lock_owner = :owner AND fence = :fence AND {condition}",
                values={":owner": held.owner, ":fence": held.fence, **values},
            )
        )


def _epoch_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _time(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)
