"""Sessions after they were opened: who reads them, and their end."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from strata.errors import SessionNotFound
from strata.jobs.fault_points import reach
from strata.jobs.naming import object_folders
from strata.jobs.reading import readable_session
from strata.model.access import Identity, Principal, Session
from strata.model.jobs import Lease
from strata.ports.clock import Clock
from strata.ports.jobs import JobStore
from strata.ports.locking import SessionLock
from strata.ports.objects import ObjectStore
from strata.ports.sessions import SessionStore
from strata.ports.workers import WorkerCalls, WorkOrder


def own_session(sessions: SessionStore, identity: Identity, session_id: str) -> Session:
    """The session; raises `SessionNotFound` for a reader who is not the owner, too."""
    session = readable_session(sessions, identity, session_id)
    if not session.writable_by(identity):
        raise SessionNotFound("There is no such session, or you may not change it.")
    return session


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKeeper:
    """Changes a session's readers and deletes sessions.

    A deletion is written down in the session's order first, under a new fence: from then on no job is accepted, the
    worker that was there has lost its lock, and every later holder of the lock goes on with the deletion. Then the
    session leaves Postgres, so readers find nothing. What it has left is purged by a worker, and only then its name is
    free; what belongs to the name in S3 and DynamoDB is removed only if it is older than the purge, so even a purger
    that slept too long takes nothing from a later session.
    """

    sessions: SessionStore
    jobs: JobStore
    lock: SessionLock
    objects: ObjectStore
    calls: WorkerCalls
    clock: Clock
    lease: timedelta

    def set_readers(self, identity: Identity, session_id: str, readers: Sequence[Principal]) -> Session:
        """Takes effect at once. Raises `SessionNotFound`."""
        return self.sessions.set_readers(own_session(self.sessions, identity, session_id).session_id, readers)

    def delete(self, identity: Identity, session_id: str) -> None:
        """Readers get `SessionNotFound` when this returns; the purge goes on by itself. Raises `SessionNotFound`."""
        session = own_session(self.sessions, identity, session_id)
        held = self.lock.seize(
            session_id,
            owner=f"delete/{uuid.uuid4().hex}",
            lease=self.lease,
            applied_seq=session.applied_seq,
            fence=session.fence,
        )
        reach("after_seize")
        try:
            self.sessions.delete(session_id, held.deletion or held.fence)
        finally:
            self.lock.abandon(held)
        reach("after_delete")
        self.calls.send(WorkOrder(session_id=session_id))

    def purge(self, held: Lease, keep: Callable[[], Lease]) -> None:
        """Complete the deletion that the lease tells of; safe to repeat from any point. `keep` renews the lease."""
        session_id, started = held.session_id, self.clock.now()
        if self.sessions.delete(session_id, held.deletion or held.fence):
            while self.sessions.purge(session_id):
                reach("in_purge")
                keep()
            for folder in object_folders(session_id):
                self.objects.remove_all(folder, before=started)
                keep()
            reach("after_objects")
            self.jobs.remove_session(session_id, before=started)
            keep()
            reach("before_end_of_purge")
            self.sessions.end_purge(session_id)
            reach("after_end_of_purge")
        self.lock.remove(keep())
