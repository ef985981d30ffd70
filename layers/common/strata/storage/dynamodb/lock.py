"""`SessionLock` in DynamoDB: a lease with a fence, on the item that also holds the session's order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from strata.errors import LockLost
from strata.model.jobs import Lease
from strata.ports.clock import Clock
from strata.storage.dynamodb.client import Refused, Table, Write, contention_pauses
from strata.storage.dynamodb.order import WAITING_SESSIONS, Order, order_key, read_order

TAKEOVER_MARGIN = timedelta(seconds=2)
"""How long after its end a lease is still respected: clocks of two workers may differ by that."""
MARGIN_SHARE = 0.1
"""… but no longer than this share of a lease: short ones belong to tests, on one clock."""


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
            if order.lease_until_ms > _epoch_ms(now - min(TAKEOVER_MARGIN, lease * MARGIN_SHARE)):
                if order.lock_owner != owner:
                    return None
                # Ours already: the reply to an earlier try was lost.
                return Lease(
                    session_id=session_id,
                    owner=owner,
                    fence=order.fence,
                    expires_at=_time(order.lease_until_ms),
                    deletion=order.deletion,
                )
            if taken := self._taken(session_id, order, owner, now, lease=lease, fence=fence):
                return taken
        raise AssertionError("unreachable: the pauses end with an error")

    def seize(self, session_id: str, *, owner: str, lease: timedelta, applied_seq: int, fence: int) -> Lease:
        for _ in contention_pauses():
            order = read_order(self.table, session_id, applied_seq=applied_seq)
            now = self.clock.now()
            if taken := self._taken(session_id, order, owner, now, lease=lease, fence=fence, deletes=True):
                return taken
        raise AssertionError("unreachable: the pauses end with an error")

    def _taken(
        self,
        session_id: str,
        order: Order,
        owner: str,
        now: datetime,
        *,
        lease: timedelta,
        fence: int,
        deletes: bool = False,
    ) -> Lease | None:
        """The lock under a new fence; None when somebody was faster: look who."""
        new_fence = max(order.fence + 1, _epoch_ms(now), fence + 1)
        deletion = new_fence if deletes else order.deletion
        until_ms = _epoch_ms(now + lease)
        values = {
            "lock_owner": owner,
            "lease_until_ms": until_ms,
            "fence": new_fence,
            "list_name": WAITING_SESSIONS,
            "list_at_ms": until_ms,
            **({} if deletion is None else {"deletion": deletion}),
        }
        try:
            self.table.write(order.write(session_id, values))
        except Refused:
            return None
        return Lease(
            session_id=session_id,
            owner=owner,
            fence=new_fence,
            expires_at=_time(until_ms),
            deletion=deletion,
        )

    def deletion(self, session_id: str) -> int | None:
        return read_order(self.table, session_id).deletion

    def remove(self, held: Lease) -> None:
        try:
            self.table.write(
                Write(
                    key=order_key(held.session_id),
                    delete=True,
                    condition="lock_owner = :owner AND fence = :fence",
                    values={":owner": held.owner, ":fence": held.fence},
                )
            )
        except Refused as error:
            raise LockLost from error

    def forget(self, session_id: str) -> None:
        try:
            self.table.write(
                Write(
                    key=order_key(session_id),
                    expression="REMOVE list_name, list_at_ms",
                    condition="attribute_exists(pk) AND attribute_not_exists(deletion)",
                )
            )
        except Refused:
            return  # there is no item, or there is something to do after all

    def renew(self, held: Lease, *, lease: timedelta) -> Lease:
        until_ms = _epoch_ms(self.clock.now() + lease)
        try:
            self._write(
                held,
                "SET lease_until_ms = :until, list_at_ms = :until",
                "lease_until_ms > :zero",
                {":until": until_ms, ":zero": 0},
            )
        except Refused as error:
            raise LockLost from error
        return replace(held, expires_at=_time(until_ms))

    def release(self, held: Lease) -> bool:
        """True also when the lock is no longer ours: then there is nothing left to release."""
        try:
            # The item stays: with it would go the fence. An idle session is on no list.
            self._write(
                held,
                "SET lease_until_ms = :zero REMOVE lock_owner, list_name, list_at_ms",
                "accepted_seq = done_seq AND attribute_not_exists(deletion)",
                {":zero": 0},
            )
        except Refused:
            order = read_order(self.table, held.session_id)
            return not order.stored or (order.lock_owner, order.fence) != (held.owner, held.fence)
        return True

    def abandon(self, held: Lease) -> None:
        try:
            self._write(
                held,
                "SET lease_until_ms = :zero, list_at_ms = :now REMOVE lock_owner",
                "attribute_exists(pk)",
                {":zero": 0, ":now": _epoch_ms(self.clock.now())},
            )
        except Refused:
            return  # no longer ours

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
