"""The session's item: what was accepted, what is done, and who holds the lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from strata.storage.dynamodb.client import Item, Table, Write

BY_LIST = "by_list"
"""The sparse index (list_name, list_at_ms): only items that somebody must look after are in it, so finding them is one
query, whatever else the table holds."""
WAITING_SESSIONS = "waiting_sessions"
"""The list of sessions with accepted jobs that are not done, or with a holder: an idle session is not in it.
`list_at_ms` is the end of the holder's lease, or the moment from which somebody should have come."""


def order_key(session_id: str) -> dict[str, str]:
    return {"pk": f"session#{session_id}", "sk": "order"}


def seq_key(session_id: str, seq: int) -> dict[str, str]:
    return {"pk": f"session#{session_id}", "sk": f"seq#{seq:012d}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The item as it was read. It goes with its session only and never expires: numbers and fences only grow.

    `stored` is False when there was none, `behind` when Postgres had applied more than was accepted here: the table
    was emptied or restored, and the numbers below are seeded. `deletion`: the fence under which the session's deletion
    was asked for.
    """

    accepted_seq: int
    done_seq: int
    lock_owner: str | None = None
    lease_until_ms: int = 0
    fence: int = 0
    deletion: int | None = None
    stored: bool = True
    behind: bool = False

    def write(self, session_id: str, values: dict[str, Any], *, guard: str = "") -> Write:
        """Set attributes if order and lock are still as they were read; seeded numbers are written with them."""
        if not self.stored:
            # Nothing to compare with: the whole item is put, if there is still none.
            item = {"accepted_seq": self.accepted_seq, "done_seq": self.done_seq, "fence": 0, "lease_until_ms": 0}
            return Write(key=order_key(session_id), item={**item, **values}, condition="attribute_not_exists(pk)")
        changed = {"accepted_seq": self.accepted_seq, "done_seq": self.done_seq, **values} if self.behind else values
        seen: dict[str, Any] = {}
        if "accepted_seq" in changed:
            # While the item is behind, the stored numbers are not the seeded ones; "smaller" says the same.
            condition = "accepted_seq < :accepted_seq" if self.behind else "accepted_seq = :seen_accepted_seq"
            seen = {} if self.behind else {":seen_accepted_seq": self.accepted_seq}
        else:
            condition = "attribute_exists(pk)"
        if "fence" in changed:
            condition += " AND fence = :seen_fence AND lease_until_ms = :seen_lease_until_ms"
            seen |= {":seen_fence": self.fence, ":seen_lease_until_ms": self.lease_until_ms}
        return Write(
            key=order_key(session_id),
            expression="SET " + ", ".join(f"{name} = :{name}" for name in changed),
            condition=condition + guard,
            values={**{f":{name}": value for name, value in changed.items()}, **seen},
        )


def read_order(table: Table, session_id: str, *, applied_seq: int = 0) -> Order:
    """The session's order, seeded where the item is missing or has fallen behind Postgres' `applied_seq`.

    A missing item is rebuilt from the numbers that were given out, as far as they are still there.
    """
    item = table.get(order_key(session_id))
    if item is None:
        given_out = _last_seq(table, session_id)
        return Order(accepted_seq=max(given_out, applied_seq), done_seq=applied_seq, stored=False)
    order = _order_of(item)
    if order.accepted_seq >= applied_seq:
        return order
    return Order(
        accepted_seq=applied_seq,
        done_seq=max(order.done_seq, applied_seq),
        lock_owner=order.lock_owner,
        lease_until_ms=order.lease_until_ms,
        fence=order.fence,
        deletion=order.deletion,
        behind=True,
    )


def _order_of(item: Item) -> Order:
    return Order(
        accepted_seq=item["accepted_seq"],
        done_seq=item["done_seq"],
        lock_owner=item.get("lock_owner"),
        lease_until_ms=item["lease_until_ms"],
        fence=item["fence"],
        deletion=item.get("deletion"),
    )


def _last_seq(table: Table, session_id: str) -> int:
    last = table.query(
        "pk = :pk AND begins_with(sk, :seq)",
        {":pk": f"session#{session_id}", ":seq": "seq#"},
        limit=1,
        newest_first=True,
    )
    return int(last[0]["sk"].removeprefix("seq#")) if last else 0
