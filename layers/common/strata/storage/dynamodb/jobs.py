"""`JobStore` in DynamoDB: jobs, their events and their places in the session's order."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from strata.errors import Conflict, JobCancelled, JobNotChangeable, JobNotFound, LockLost, SessionNotFound
from strata.jobs.events import INDEX_STATUS, TERMINAL, status_data
from strata.jobs.running import Progress
from strata.model.jobs import DeadLetter, Job, JobEvent, JobStatus, Lease
from strata.ports.clock import Clock
from strata.storage.dynamodb.client import Item, Refused, Table, Write, contention_pauses
from strata.storage.dynamodb.job_items import (
    OPEN_UPLOADS,
    epoch_ms,
    event_of,
    failed_list,
    job_item,
    job_key,
    job_of,
    key_of,
    letter_key,
    letter_list,
    letter_of,
    time_text,
    unchanged,
)
from strata.storage.dynamodb.order import BY_LIST, WAITING_SESSIONS, Order, order_key, read_order, seq_key

BY_SESSION = "by_session"
"""The index (session_id, created_at), with all attributes; only job items are in it."""
NOTIFIED_WITHIN = timedelta(seconds=30)
"""An accepted job's own notification comes sooner than that; only then the sweep looks after its session."""

_HELD = "lock_owner = :owner AND fence = :fence"
_STATUS = {"#status": "status"}
_QUEUED = status_data(JobStatus.QUEUED, Progress(phase="queued"))
_KNOWN_JOBS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoJobStore:
    """An event's number is one above the greatest that its writer saw, and its item must be new: numbers have no gaps,
    and one is never seen before a smaller one. Nothing comes after a terminal event.

    Accepting a job writes its first event, ending it its last one (`terminal`, without data: the job is the data),
    each in the transaction that changes the status. Items but the session's own are removed `keep` after their last
    change.
    """

    table: Table
    clock: Clock
    keep: timedelta = timedelta(days=90)
    _appended: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The last event that this process wrote for a job: as long as nobody else writes, the next number is known."""

    def create(self, job: Job) -> None:
        """Raises `Conflict` when there is a job of that id."""
        token = uuid.uuid4().hex
        item = {**job_item(job), **self._expiry(), "create_token": token}
        try:
            self.table.write(Write(key=job_key(job.job_id), item=item, condition="attribute_not_exists(pk)"))
        except Refused as error:
            # botocore sends a write again whose reply was lost: then it is refused because of itself.
            stored = self.table.get(job_key(job.job_id))
            if stored is not None and stored.get("create_token") == token:
                return
            raise Conflict(f"There is a job {job.job_id} already.") from error

    def get(self, job_id: str) -> Job | None:
        item = self.table.get(job_key(job_id))
        return None if item is None else job_of(item)

    def for_session(self, session_id: str, *, limit: int = 50) -> list[Job]:
        """Newest first; a job that was opened a moment ago may still be missing."""
        items = self.table.query(
            "session_id = :session", {":session": session_id}, index=BY_SESSION, newest_first=True, limit=limit
        )
        return [job_of(item) for item in items]

    def accept(self, job_id: str, *, session_id: str, object_version: str | None, applied_seq: int) -> Job:
        for _ in contention_pauses():
            job = self._require(job_id)
            if job.session_id != session_id:
                raise JobNotFound
            if job.seq is not None:
                return job
            if job.status is not JobStatus.AWAITING_UPLOAD:
                raise JobNotChangeable
            order = read_order(self.table, session_id, applied_seq=applied_seq)
            if order.deletion is not None:
                raise SessionNotFound("The session is being deleted.")
            accepted = replace(
                job,
                status=JobStatus.QUEUED,
                seq=order.accepted_seq + 1,
                object_version=object_version,
                updated_at=self.clock.now(),
            )
            try:
                self.table.write(
                    self._job_update(accepted, *unchanged(job)),
                    order.write(
                        session_id,
                        {
                            "accepted_seq": accepted.seq,
                            "list_name": WAITING_SESSIONS,
                            "list_at_ms": max(order.lease_until_ms, epoch_ms(accepted.updated_at + NOTIFIED_WITHIN)),
                        },
                        guard=" AND attribute_not_exists(deletion)" if order.stored else "",
                    ),
                    Write(
                        key=seq_key(session_id, order.accepted_seq + 1),
                        item={"job_id": job_id, **self._expiry()},
                        condition="attribute_not_exists(pk)",
                    ),
                    self._event(job_id, JobEvent(seq=1, name=INDEX_STATUS, data=_QUEUED)),
                )
            except Refused:
                continue  # another job of this session was accepted in between, or this one was
            return accepted
        raise AssertionError("unreachable: the pauses end with an error")

    def next_queued(self, session_id: str) -> Job | None:
        """For the lock's holder. A place whose job is gone (expired, or lost with the table) is closed on the way."""
        for _ in contention_pauses():
            order = read_order(self.table, session_id)
            while order.accepted_seq > order.done_seq:
                key = seq_key(session_id, order.done_seq + 1)
                place = self.table.get(key)
                missing = key if place is None else job_key(place["job_id"])
                if place is not None and (job := self.get(place["job_id"])):
                    return job
                if not self._close_empty(session_id, order.done_seq, missing):
                    break  # what seemed to be missing was just being written, or the order has moved on
                order = replace(order, done_seq=order.done_seq + 1)
            else:
                return None
        raise AssertionError("unreachable: the pauses end with an error")

    def _close_empty(self, session_id: str, done_seq: int, missing: Mapping[str, str]) -> bool:
        # In a transaction: one that is being committed shows its items one by one, and "missing" must be certain.
        try:
            self.table.write(
                Write(
                    key=order_key(session_id),
                    expression="SET done_seq = :next",
                    condition="done_seq = :seen",
                    values={":next": done_seq + 1, ":seen": done_seq},
                ),
                Write(key=missing, condition="attribute_not_exists(pk)"),
            )
        except Refused:
            return False
        return True

    def start(self, job_id: str, lease: Lease) -> Job:
        """Raises `LockLost`, `JobNotFound`, and `JobNotChangeable` for a job that has ended or was never accepted."""
        for _ in contention_pauses():
            job = self._require(job_id)
            if job.status not in (JobStatus.QUEUED, JobStatus.RUNNING):
                raise JobNotChangeable
            running = replace(
                job,
                status=JobStatus.RUNNING,
                fence=lease.fence,
                starts=job.starts + 1,
                updated_at=self.clock.now(),
            )
            try:
                self.table.write(
                    self._job_update(running, *unchanged(job)),
                    Write(key=order_key(lease.session_id), condition=_HELD, values=_holder(lease)),
                )
            except Refused:
                self._check_held(lease)
                continue
            return running
        raise AssertionError("unreachable: the pauses end with an error")

    def begin_commit(self, job_id: str, lease: Lease) -> None:
        try:
            self.table.write(
                Write(
                    key=job_key(job_id),
                    expression="SET committing = :true",
                    condition="#status = :running AND fence = :fence AND cancel_requested = :false",
                    values={
                        ":true": True,
                        ":false": False,
                        ":running": JobStatus.RUNNING.value,
                        ":fence": lease.fence,
                    },
                    names=_STATUS,
                )
            )
        except Refused as error:
            job = self.get(job_id)
            if job is None or job.fence != lease.fence or job.status is not JobStatus.RUNNING:
                raise LockLost from error
            raise JobCancelled from error

    def hand_over(self, job_id: str, lease: Lease) -> None:
        starts = self._require(job_id).starts
        try:
            self.table.write(
                Write(
                    key=job_key(job_id),
                    expression="SET starts = :fewer",
                    condition="#status = :running AND fence = :fence AND starts = :starts",
                    values={
                        ":fewer": starts - 1,
                        ":starts": starts,
                        ":running": JobStatus.RUNNING.value,
                        ":fence": lease.fence,
                    },
                    names=_STATUS,
                )
            )
        except Refused:
            return  # another worker's already

    def cancel(self, job_id: str) -> Job:
        for _ in contention_pauses():
            stored = self._require(job_id)
            if stored.status.ended:
                raise JobNotChangeable
            if stored.committing:
                raise JobNotChangeable("The job is being committed; it can't be cancelled any more.")
            if stored.status is JobStatus.RUNNING:
                changed = replace(stored, cancel_requested=True)
                writes: Sequence[Write] = (self._job_update(changed, *unchanged(stored)),)
            else:
                # One that was accepted keeps its place in the order; the holder closes it when it comes there.
                changed = replace(stored, status=JobStatus.CANCELLED, updated_at=self.clock.now())
                writes = self._ending(changed, stored)
            try:
                self.table.write(*writes)
            except Refused:
                continue
            return changed
        raise AssertionError("unreachable: the pauses end with an error")

    def put_back(self, failed: Job, again: Job) -> None:
        put_back = replace(failed, retried_as=again.job_id)
        condition, values = unchanged(failed)
        new = {**job_item(again), **self._expiry()}
        try:
            self.table.write(
                self._job_update(put_back, f"{condition} AND attribute_exists(list_name)", values),
                Write(key=job_key(again.job_id), item=new, condition="attribute_not_exists(pk)"),
            )
        except Refused as error:
            raise JobNotChangeable("Only a job that failed can be put back, and only once.") from error

    def failed(self, tenant: str, *, limit: int = 50) -> list[Job]:
        return [job_of(item) for item in self._listed(failed_list(tenant), limit=limit, newest_first=True)]

    def late_uploads(self, now: datetime, *, limit: int) -> list[Job]:
        return [job_of(item) for item in self._listed(OPEN_UPLOADS, until=now, limit=limit)]

    def waiting_sessions(self, now: datetime, *, limit: int) -> list[str]:
        items = self._listed(WAITING_SESSIONS, until=now, limit=limit)
        return [item["pk"].removeprefix("session#") for item in items]

    def _listed(
        self, name: str, *, until: datetime | None = None, limit: int, newest_first: bool = False
    ) -> list[Item]:
        condition, values = "list_name = :list", {":list": name}
        if until is not None:
            condition += " AND list_at_ms <= :until"
            values |= {":until": epoch_ms(until)}  # type: ignore[dict-item]
        return self.table.query(condition, values, index=BY_LIST, limit=limit, newest_first=newest_first)

    def remove_session(self, session_id: str, *, before: datetime) -> None:
        items = self.table.query(
            "session_id = :session AND created_at < :before",
            {":session": session_id, ":before": time_text(before)},
            index=BY_SESSION,
        )
        jobs = {item["job_id"] for item in items}
        places = self.table.query(
            "pk = :pk AND begins_with(sk, :seq)", {":pk": f"session#{session_id}", ":seq": "seq#"}
        )
        self.table.remove([key_of(place) for place in places if place["job_id"] in jobs])
        for job_id in jobs:
            # The job's own item goes last: as long as it is there, a second try finds the rest.
            own = self.table.query("pk = :pk", {":pk": job_key(job_id)["pk"]})
            events = [key_of(item) for item in own if item["sk"] != job_key(job_id)["sk"]]
            self.table.remove(events)
            self.table.remove([job_key(job_id)])

    def finish(self, job: Job, lease: Lease) -> None:
        """A job that was ended meanwhile keeps that end; its place is closed all the same. Safe to repeat."""
        if job.seq is None or not job.status.ended:
            raise ValueError(f"job {job.job_id} has no place in the order, or no end")
        for _ in contention_pauses():
            order = self._check_held(lease)
            if order.done_seq >= job.seq:
                return
            stored = self._require(job.job_id)
            close_place = Write(
                key=order_key(lease.session_id),
                expression="SET done_seq = :seq",
                condition=f"{_HELD} AND done_seq < :seq",
                values={":seq": job.seq, **_holder(lease)},
            )
            ending = () if stored.status.ended else self._ending(job, stored)
            try:
                self.table.write(close_place, *ending)
            except Refused:
                continue
            return

    def reject(self, job: Job) -> None:
        """Raises `JobNotChangeable` for a job that was accepted; one that has ended stays as it is."""
        if not job.status.ended:
            raise ValueError(f"job {job.job_id} has no end")
        for _ in contention_pauses():
            stored = self._require(job.job_id)
            if stored.seq is not None:
                raise JobNotChangeable("The job was accepted; it holds a place in the order.")
            if stored.status.ended:
                return
            try:
                self.table.write(*self._ending(job, stored))
            except Refused:
                continue
            return

    def append_event(self, job_id: str, name: str, data: Mapping[str, object]) -> JobEvent:
        """Raises `JobNotChangeable` for a job that has ended: its terminal event is the last one."""
        for _ in contention_pauses():
            event = JobEvent(seq=self._next_event(job_id), name=name, data=data)
            try:
                # With its job: nothing comes back of one that was deleted a moment ago.
                self.table.write(
                    self._event(job_id, event), Write(key=job_key(job_id), condition="attribute_exists(pk)")
                )
            except Refused:
                self._appended.pop(job_id, None)
                continue
            if len(self._appended) >= _KNOWN_JOBS:
                self._appended.clear()
            self._appended[job_id] = event.seq
            return event
        raise AssertionError("unreachable: the pauses end with an error")

    def events_after(self, job_id: str, seq: int) -> list[JobEvent]:
        first = min(max(seq, 0), 99_999_998) + 1
        items = self.table.query(
            "pk = :pk AND sk BETWEEN :first AND :last",
            {":pk": job_key(job_id)["pk"], ":first": f"event#{first:08d}", ":last": "event#99999999"},
        )
        return [event_of(item) for item in items]

    def dead_letter(self, letter: DeadLetter) -> None:
        self.table.put(
            {
                **letter_key(letter.letter_id),
                "letter_id": letter.letter_id,
                "object_key": letter.object_key,
                "object_version": letter.object_version,
                "reason": letter.reason,
                "created_at": time_text(letter.created_at),
                "of_session": letter.session_id,
                "tenant": letter.tenant,
                "list_name": letter_list(letter.tenant),
                "list_at_ms": epoch_ms(letter.created_at),
                **self._expiry(),
            }
        )

    def get_dead_letter(self, letter_id: str) -> DeadLetter | None:
        item = self.table.get(letter_key(letter_id))
        return None if item is None else letter_of(item)

    def dead_letters(self, tenant: str | None, *, limit: int = 50) -> list[DeadLetter]:
        return [letter_of(item) for item in self._listed(letter_list(tenant), limit=limit, newest_first=True)]

    def remove_dead_letter(self, letter_id: str) -> None:
        self.table.remove([letter_key(letter_id)])

    def _require(self, job_id: str) -> Job:
        job = self.get(job_id)
        if job is None:
            raise JobNotFound
        return job

    def _next_event(self, job_id: str) -> int:
        """Raises `JobNotChangeable` for a job that has ended."""
        if (known := self._appended.get(job_id)) is not None:
            return known + 1
        last = self._last_event(job_id)
        if last is None:
            self._require(job_id)
            return 1
        if last.name == TERMINAL:
            raise JobNotChangeable
        return last.seq + 1

    def _last_event(self, job_id: str) -> JobEvent | None:
        last = self.table.query(
            "pk = :pk AND begins_with(sk, :event)",
            {":pk": job_key(job_id)["pk"], ":event": "event#"},
            limit=1,
            newest_first=True,
        )
        return event_of(last[0]) if last else None

    def _check_held(self, lease: Lease) -> Order:
        order = read_order(self.table, lease.session_id)
        if not order.stored or (order.lock_owner, order.fence) != (lease.owner, lease.fence):
            raise LockLost
        return order

    def _ending(self, job: Job, stored: Job) -> Sequence[Write]:
        last = self._last_event(job.job_id)
        terminal = JobEvent(seq=1 if last is None else last.seq + 1, name=TERMINAL, data={})
        return self._job_update(stored.ending(job), *unchanged(stored)), self._event(job.job_id, terminal)

    def _job_update(self, job: Job, condition: str, values: Mapping[str, Any]) -> Write:
        """The job's item as a whole."""
        item = {**job_item(job), **self._expiry()}
        return Write(key=job_key(job.job_id), item=item, condition=condition, values=values, names=_STATUS)

    def _event(self, job_id: str, event: JobEvent) -> Write:
        return Write(
            key={"pk": job_key(job_id)["pk"], "sk": f"event#{event.seq:08d}"},
            item={
                "name": event.name,
                "data": json.dumps(event.data, separators=(",", ":")),
                **self._expiry(),
            },
            condition="attribute_not_exists(pk)",
        )

    def _expiry(self) -> dict[str, int]:
        return {"expires_at": int((self.clock.now() + self.keep).timestamp())}  # in seconds, as DynamoDB's TTL wants


def _holder(lease: Lease) -> dict[str, Any]:
    return {":owner": lease.owner, ":fence": lease.fence}
