"""How content becomes a job: opened by a request, accepted once its content is in S3."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from strata.errors import (
    Conflict,
    EmbeddingModelMismatch,
    JobNotChangeable,
    JobNotFound,
    SessionNotFound,
    UploadTooLarge,
)
from strata.jobs.fault_points import reach
from strata.jobs.keeping import own_session
from strata.jobs.naming import (
    CONTENT_TYPES,
    ObjectName,
    UploadedObject,
    is_job_id,
    job_id_of_object,
    letter_id_of_object,
    new_job_id,
    new_session_id,
    object_key,
    parse_object_key,
)
from strata.jobs.sweeping import expired
from strata.model.access import Identity, Principal, Session
from strata.model.jobs import DeadLetter, Job, JobKind, JobStatus
from strata.ports.clock import Clock
from strata.ports.jobs import JobStore
from strata.ports.objects import ObjectStore, PresignedPost
from strata.ports.sessions import SessionStore

_log = logging.getLogger(__name__)

UPLOAD_GRACE = timedelta(minutes=15)
"""S3 looks at a form's expiry when an upload begins; a large one may still be on its way then."""
STORED_WITHIN = timedelta(minutes=2)
"""A request stores what it carries before it ends."""


class _DeadLetter(Exception):
    """An upload that can't become a job."""

    def __init__(self, reason: str, session: Session | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.session = session


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSnapshot:
    """`upload` says where the content goes; None when it was stored with the request. `created`: the session is new."""

    session: Session
    created: bool
    job: Job
    upload: PresignedPost | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """Opens jobs and accepts their content.

    A job is accepted, and so gets its place in the session's order, when its content is in S3. The notification
    about that content and the request that stored it may both accept it, in any order and any number of times.
    """

    sessions: SessionStore
    jobs: JobStore
    objects: ObjectStore
    clock: Clock
    embedding_model: str
    dimension: int
    pipeline_version: str
    max_archive_bytes: int
    max_inline_bytes: int
    upload_expires_in_s: int

    def open_snapshot(
        self,
        identity: Identity,
        *,
        session_id: str | None = None,
        project_id: str | None = None,
        readers: Sequence[Principal] = (),
        upload_format: str = "tar.gz",
        inline: bytes | None = None,
        reindex: bool = False,
    ) -> OpenedSnapshot:
        """A job for a whole snapshot, in a new session or in one that the caller may write.

        `inline` is the content itself as JSON Lines: it is stored and accepted at once. `readers` and `project_id`
        count for a new session only. `reindex` asks for a new index beside the live one; a session that was built
        with another model gets one anyway. Raises `SessionNameTaken` and `UploadTooLarge`.
        """
        self._check_inline(inline)
        name = session_id or new_session_id()
        session, created = self.sessions.create(
            session_id=name,
            identity=identity,
            project_id=project_id or name,
            embedding_model=self.embedding_model,
            dimension=self.dimension,
            pipeline_version=self.pipeline_version,
            readers=readers,
        )
        if inline is not None:
            within, upload_format = STORED_WITHIN, "jsonl"
        else:
            within = timedelta(seconds=self.upload_expires_in_s) + UPLOAD_GRACE
        job = self._open(session, JobKind.SNAPSHOT, upload_format, within, reindex=reindex)
        if inline is not None:
            return OpenedSnapshot(session=session, created=created, job=self._store(session, job, inline), upload=None)
        upload = self.objects.presigned_post(
            job.object_key,
            max_bytes=self.max_archive_bytes,
            content_type=CONTENT_TYPES[upload_format],
            expires_in_s=self.upload_expires_in_s,
        )
        return OpenedSnapshot(session=session, created=created, job=job, upload=upload)

    def open_changes(self, identity: Identity, session_id: str, lines: bytes) -> Job:
        """A job for changes: their JSON Lines are stored in S3, then the job is accepted.

        Raises `SessionNotFound` (also for a reader who is not the owner), `EmbeddingModelMismatch`, `UploadTooLarge`.
        """
        self._check_inline(lines)
        session = own_session(self.sessions, identity, session_id)
        self._check_model(session)
        return self._store(session, self._open(session, JobKind.CHANGES, "jsonl", STORED_WITHIN), lines)

    def open_roll_back(self, identity: Identity, session_id: str) -> Job:
        """A job that makes the index before the live one again, in its place in the session's order.

        Raises `SessionNotFound`, also for a reader who is not the owner.
        """
        session = own_session(self.sessions, identity, session_id)
        return self._store(session, self._open(session, JobKind.ROLLBACK, "jsonl", STORED_WITHIN), b"\n")

    def accept_upload(self, uploaded: UploadedObject) -> str | None:
        """The session whose work should now go on; None when the object belongs to none (it is a dead letter then).

        A duplicate or late notification changes nothing. An object under a name of its sender's own, in a session
        that exists, becomes a job: one for each version of the object.
        """
        try:
            return self._accepted(uploaded).session_id
        except _DeadLetter as refusal:
            _log.warning("An upload became a dead letter: %s", refusal.reason)
            self.jobs.dead_letter(
                DeadLetter(
                    letter_id=letter_id_of_object(uploaded.key, uploaded.identity),
                    object_key=uploaded.key,
                    object_version=uploaded.version,
                    reason=refusal.reason,
                    created_at=self.clock.now(),
                    session_id=None if refusal.session is None else refusal.session.session_id,
                    tenant=None if refusal.session is None else refusal.session.tenant,
                )
            )
            return None

    def accept_again(self, uploaded: UploadedObject) -> Job:
        """The job of an upload that was a dead letter. Raises `Conflict` when it still can't become one."""
        try:
            return self._accepted(uploaded)
        except _DeadLetter as refusal:
            raise Conflict(refusal.reason) from refusal

    def accept_job(self, job: Job) -> Job:
        """A job whose content is known to be in S3, though no notification told of it. Raises `JobNotFound` when its
        session is gone; the job is expired then.
        """
        session = self.sessions.get(job.session_id)
        if session is None:
            self.jobs.reject(expired(job, self.clock))
            raise JobNotFound
        version = job.object_version
        if version is None:
            stored = self.objects.head(job.object_key)
            version = None if stored is None else stored.version
        return self._accept(session, job, version)

    def _accepted(self, uploaded: UploadedObject) -> Job:
        named = parse_object_key(uploaded.key)
        if named is None:
            raise _DeadLetter(
                "The key is not uploads/{session}/{job}.{tar.gz|zip|jsonl} or changes/{session}/{job}.jsonl."
            )
        session = self.sessions.get(named.session_id)
        if session is None:
            raise _DeadLetter("There is no such session.")
        job = self._job_of(named, session, uploaded)
        if job.object_key != uploaded.key or job.session_id != session.session_id:
            raise _DeadLetter("The job of that name belongs to another object.", session)
        try:
            return job if job.seq is not None else self._accept(session, job, uploaded.version)
        except JobNotChangeable as error:
            raise _DeadLetter("The job had ended before its content came.", session) from error
        except SessionNotFound as error:
            raise _DeadLetter("The session is being deleted.", session) from error

    def _open(
        self, session: Session, kind: JobKind, upload_format: str, within: timedelta, *, reindex: bool = False
    ) -> Job:
        job_id = new_job_id(self.clock.now())
        key = object_key(kind, session.session_id, job_id, upload_format)
        return self._create(session, kind, job_id, key, within, reindex=reindex)

    def _create(
        self, session: Session, kind: JobKind, job_id: str, key: str, within: timedelta, *, reindex: bool = False
    ) -> Job:
        now = self.clock.now()
        job = Job(
            job_id=job_id,
            session_id=session.session_id,
            tenant=session.tenant,
            kind=kind,
            status=JobStatus.AWAITING_UPLOAD,
            object_key=key,
            created_at=now,
            updated_at=now,
            reindex=reindex,
            upload_until=now + within,
        )
        self.jobs.create(job)
        return job

    def _store(self, session: Session, job: Job, content: bytes) -> Job:
        # The notification about this object may come before we go on: it then accepts the job, and we find it so.
        stored = self.objects.put(job.object_key, content, content_type=CONTENT_TYPES["jsonl"])
        return self._accept(session, job, stored.version)

    def _accept(self, session: Session, job: Job, version: str | None) -> Job:
        reach("before_accept")
        accepted = self.jobs.accept(
            job.job_id, session_id=session.session_id, object_version=version, applied_seq=session.applied_seq
        )
        reach("after_accept")
        return accepted

    def _job_of(self, named: ObjectName, session: Session, uploaded: UploadedObject) -> Job:
        known_name = is_job_id(named.name)
        job_id = named.name if known_name else job_id_of_object(uploaded.key, uploaded.identity)
        if job := self.jobs.get(job_id):
            return job
        try:
            return self._create(session, named.kind, job_id, uploaded.key, STORED_WITHIN)
        except Conflict:  # another delivery of the same notification was faster
            job = self.jobs.get(job_id)
            if job is None:
                raise
            return job

    def _check_inline(self, content: bytes | None) -> None:
        if content is not None and len(content) > self.max_inline_bytes:
            raise UploadTooLarge(
                f"A request may carry at most {self.max_inline_bytes:,} bytes of files; "
                "upload an archive to the session instead (POST /api/rag/sessions without `files`)."
            )

    def _check_model(self, session: Session) -> None:
        if (session.embedding_model, session.dimension) != (self.embedding_model, self.dimension):
            raise EmbeddingModelMismatch(
                f"Session {session.session_id!r} was built with {session.embedding_model} ({session.dimension} "
                f"dimensions), this deployment embeds with {self.embedding_model} ({self.dimension}). "
                "Index the whole project anew: strata index PATH --session NAME --reindex."
            )
