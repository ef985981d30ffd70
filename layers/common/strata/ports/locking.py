"""One worker a session, and proof of it: lease and fence (DynamoDB)."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from strata.model.jobs import Lease


class SessionLock(Protocol):
    """The session's lock with lease and fence (DynamoDB, the item that also holds the order)."""

    def acquire(self, session_id: str, *, owner: str, lease: timedelta, applied_seq: int, fence: int) -> Lease | None:
        """The lease, or None when another holder's is still valid. Seeds a missing or older item from Postgres'
        `applied_seq` and `fence`. The new fence is max(previous + 1, epoch milliseconds, fence + 1).
        """
        ...

    def renew(self, held: Lease, *, lease: timedelta) -> Lease:
        """Raises `LockLost`."""
        ...

    def release(self, held: Lease) -> bool:
        """Release if nothing waits (`accepted_seq = done_seq`); False, still held, when a job has come in."""
        ...

    def abandon(self, held: Lease) -> None:
        """Release whatever waits (a hand-over or a failure); does nothing when the lock is no longer ours."""
        ...

    def seize(self, session_id: str, *, owner: str, lease: timedelta, applied_seq: int, fence: int) -> Lease:
        """Take the lock whoever holds it, in order to delete the session: no job is accepted any more, and every later
        holder finds `Lease.deletion`.
        """
        ...

    def deletion(self, session_id: str) -> int | None:
        """The fence under which the session's deletion was asked for, as long as it is not complete."""
        ...

    def remove(self, held: Lease) -> None:
        """The lock and the order go with their session. Raises `LockLost`."""
        ...

    def forget(self, session_id: str) -> None:
        """Nobody should be working on the session: it does not exist."""
        ...
