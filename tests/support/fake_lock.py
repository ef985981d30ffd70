"""A `SessionLock` that keeps its port's promises in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from strata.errors import (
    LockLost,
)
from strata.model.jobs import Lease
from tests.support.fake_jobs import FakeJobTable, FakeSession

TAKEOVER_MARGIN = timedelta(seconds=2)


class FakeSessionLock:
    def __init__(self, table: FakeJobTable) -> None:
        self.table = table

    def acquire(self, session_id: str, *, owner: str, lease: timedelta, applied_seq: int, fence: int) -> Lease | None:
        with self.table.turn:
            session, now = self.table.session(session_id, applied_seq), self.table.clock.now()
            if session.owner is not None and session.until > now - min(TAKEOVER_MARGIN, lease * 0.1):
                if session.owner != owner:
                    return None
                return self._lease(session_id, session)
            return self._take(session_id, session, owner, now + lease, fence)

    def seize(self, session_id: str, *, owner: str, lease: timedelta, applied_seq: int, fence: int) -> Lease:
        with self.table.turn:
            session = self.table.session(session_id, applied_seq)
            self._take(session_id, session, owner, self.table.clock.now() + lease, fence)
            session.deletion = session.fence
            return self._lease(session_id, session)

    def _take(self, session_id: str, session: FakeSession, owner: str, until: datetime, fence: int) -> Lease:
        now_ms = int(self.table.clock.now().timestamp() * 1000)
        session.owner, session.until, session.listed_at = owner, until, until
        session.fence = max(session.fence + 1, now_ms, fence + 1)
        return self._lease(session_id, session)

    def _lease(self, session_id: str, session: FakeSession) -> Lease:
        return Lease(
            session_id=session_id,
            owner=session.owner or "",
            fence=session.fence,
            expires_at=session.until,
            deletion=session.deletion,
        )

    def deletion(self, session_id: str) -> int | None:
        session = self.table.sessions.get(session_id)
        return None if session is None else session.deletion

    def remove(self, held: Lease) -> None:
        with self.table.turn:
            if not self.table.holds(held):
                raise LockLost
            del self.table.sessions[held.session_id]

    def forget(self, session_id: str) -> None:
        session = self.table.sessions.get(session_id)
        if session is not None and session.deletion is None:
            session.listed_at = None

    def renew(self, held: Lease, *, lease: timedelta) -> Lease:
        with self.table.turn:
            if not self.table.holds(held):
                raise LockLost
            session = self.table.session(held.session_id)
            session.until = session.listed_at = self.table.clock.now() + lease
            return replace(held, expires_at=session.until)

    def release(self, held: Lease) -> bool:
        with self.table.turn:
            if not self.table.holds(held):
                return True
            session = self.table.session(held.session_id)
            if session.accepted_seq != session.done_seq or session.deletion is not None:
                return False
            session.owner = session.listed_at = None
            return True

    def abandon(self, held: Lease) -> None:
        with self.table.turn:
            if self.table.holds(held):
                session = self.table.session(held.session_id)
                session.owner, session.listed_at = None, self.table.clock.now()
