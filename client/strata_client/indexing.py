"""A folder → a session's index: pack, upload through the store, follow the job to its end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from strata_client.client import StrataClient
from strata_client.errors import StrataApiError
from strata_client.events import JobEvent
from strata_client.packing import PackingLimits, Snapshot, pack, require_folder
from strata_client.wire import JobView, PathReason, SessionView

NOT_FOUND = 404


class IndexWatcher(Protocol):
    """Hears how the work goes on; called in this order."""

    def packing(self, files: int) -> None:
        """So many files have been packed."""

    def packed(self, snapshot: Snapshot) -> None: ...

    def uploading(self, sent_bytes: int, total_bytes: int) -> None: ...

    def happened(self, event: JobEvent) -> None:
        """An event of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFolder:
    """What became of it. `job` has ended, in whatever state; `skipped_here` never left the folder.

    `seconds` is the time from the request for the session to the job's end, without the packing.
    """

    session: SessionView
    job: JobView
    files: int
    archive_bytes: int
    skipped_here: tuple[PathReason, ...]
    seconds: float


def index_folder(
    client: StrataClient,
    root: Path,
    session_id: str,
    *,
    watcher: IndexWatcher,
    reindex: bool = False,
    limits: PackingLimits | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> IndexedFolder:
    """Make the session's index equal to the folder, and wait until it is; `reindex`: as a new index.

    Packing a large folder takes a while: what would be refused after it (a name that is none, a server that is not
    there, a token that is not valid) is refused before.
    """
    require_folder(root)
    _check_reachable(client, session_id)
    with pack(root, limits=limits, on_file=watcher.packing) as snapshot:
        watcher.packed(snapshot)
        started = clock()
        created = client.create_session(session_id, project_id=name_from(root), format="tar.gz", reindex=reindex)
        form = created["upload"]
        if form is None:
            raise ValueError("the API gave no upload form for an archive")
        client.upload(form, snapshot.archive, lambda sent: watcher.uploading(sent, snapshot.archive_bytes))
        job = client.wait_for(created["job"]["job_id"], watcher.happened)
        return IndexedFolder(
            session=created["session"],
            job=job,
            files=snapshot.files,
            archive_bytes=snapshot.archive_bytes,
            skipped_here=snapshot.skipped,
            seconds=clock() - started,
        )


def _check_reachable(client: StrataClient, session_id: str) -> None:
    """Raises `ClientError`. That there is no such session yet, or none of the caller's, is told when it is opened."""
    try:
        client.session(session_id)
    except StrataApiError as error:
        if error.status != NOT_FOUND:
            raise


def name_from(root: Path) -> str:
    """The folder's name as one that the API takes for a project or a session.

    >>> name_from(Path("/src/My Project (new)")), name_from(Path("/src/проект"))
    ('My-Project-new', 'folder')
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", root.resolve().name)[:80]
    return name.lstrip("._-").rstrip("-.") or "folder"
