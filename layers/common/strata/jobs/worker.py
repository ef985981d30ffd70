"""What an S3 notification sets going: accept what came, then work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strata.jobs.lifecycle import Lifecycle
from strata.jobs.mailbox import Mailbox
from strata.jobs.naming import UploadedObject


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadWorker:
    """Accepts the uploads of one notification and drains their sessions."""

    lifecycle: Lifecycle
    mailbox: Mailbox

    def work(self, uploads: Sequence[UploadedObject], *, owner: str, remaining_s: Callable[[], float]) -> None:
        """Every upload is accepted before the first session is drained: hours of work never delay an acceptance.

        Raises what the stores raise, so that the notification is delivered again; that is safe at any point.
        """
        accepted = [self.lifecycle.accept_upload(upload) for upload in uploads]
        for session_id in dict.fromkeys(name for name in accepted if name is not None):
            self.mailbox.drain(session_id, owner=owner, remaining_s=remaining_s)
