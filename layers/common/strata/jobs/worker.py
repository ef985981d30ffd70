"""What an S3 notification, or the order of another function, sets going: accept what came, then work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strata.errors import HandedOver, JobNotChangeable, JobNotFound, StrataError
from strata.jobs.lifecycle import Lifecycle
from strata.jobs.mailbox import Mailbox
from strata.jobs.naming import UploadedObject
from strata.ports.jobs import JobStore
from strata.ports.workers import WorkerCalls, WorkOrder

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadWorker:
    """Accepts the uploads of one notification and drains their sessions."""

    lifecycle: Lifecycle
    jobs: JobStore
    mailbox: Mailbox
    calls: WorkerCalls

    def work(
        self,
        uploads: Sequence[UploadedObject],
        orders: Sequence[WorkOrder] = (),
        *,
        owner: str,
        remaining_s: Callable[[], float],
    ) -> None:
        """Every upload is accepted before the first session is drained: hours of work never delay an acceptance.

        A worker whose time is over calls the next one. Raises what the stores raise, so that the notification is
        delivered again; that is safe at any point.
        """
        names = [self.lifecycle.accept_upload(upload) for upload in uploads]
        names += [self._ordered(order) for order in orders]
        sessions = [name for name in dict.fromkeys(names) if name is not None]
        for number, session_id in enumerate(sessions):
            try:
                self.mailbox.drain(session_id, owner=owner, remaining_s=remaining_s)
            except HandedOver as handed_over:
                self._call_for(sessions[number:], handed_over)
                return

    def _ordered(self, order: WorkOrder) -> str:
        job = None if order.job_id is None else self.jobs.get(order.job_id)
        if job is not None and job.seq is None and job.session_id == order.session_id:
            try:
                self.lifecycle.accept_job(job)
            except (JobNotFound, JobNotChangeable) as error:
                _log.info("Job %s is accepted no more: %s", job.job_id, error.code)
        return order.session_id

    def _call_for(self, sessions: Sequence[str], handed_over: HandedOver) -> None:
        try:
            for session_id in sessions:
                self.calls.send(WorkOrder(session_id=session_id))
        except StrataError:
            raise handed_over from None  # then the platform delivers again
