"""How content becomes a job: opened by a request, accepted once its content is in S3."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from strata.errors import Conflict, EmbeddingModelMismatch, JobNotChangeable, SessionNotFound, UploadTooLarge
from strata.jobs.naming import (
    CONTENT_TYPES,
    ObjectName,
    UploadedObject,
    is_job_id,
    job_id_of_object,
    new_job_id,
    new_session_id,
    object_key,
    parse_object_key,
)
from strata.jobs.reading import readable_session
from strata.model.access import Identity, Principal, Session
from strata.model.jobs import Job, JobKind, JobStatus
from strata.ports import Clock, JobStore, ObjectStore, PresignedPost, SessionStore

_log = logging.getLogger(__name__)


class _DeadLetter(Exception):
    """An upload that belongs to no job and no session."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


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
        job = self._open(session, JobKind.SNAPSHOT, "jsonl" if inline is not None else upload_format, reindex=reindex)
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
        session = self._writable(identity, session_id)
        self._check_model(session)
        return self._store(session, self._open(session, JobKind.CHANGES, "jsonl"), lines)

    def open_roll_back(self, identity: Identity, session_id: str) -> Job:
        """A job that makes the index before the live one again, in its place in the session's order.

        Raises `SessionNotFound`, also for a reader who is not the owner.
        """
        session = self._writable(identity, session_id)
        return self._store(session, self._open(session, JobKind.ROLLBACK, "jsonl"), b"\n")

    def accept_upload(self, uploaded: UploadedObject) -> str | None:
        """The session whose work should now go on; None when the object belongs to none (it is a dead letter then).

        A duplicate or late notification changes nothing. An object under a name of its sender's own, in a session
        that exists, becomes a job: one for each version of the object.
        """
        try:
            return self._accepted_session(uploaded)
        except _DeadLetter as refusal:
            _log.warning("An upload became a dead letter: %s", refusal.reason)
            self.jobs.dead_letter(object_key=uploaded.key, reason=refusal.reason)
            return None

    def _accepted_session(self, uploaded: UploadedObject) -> str:
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
            raise _DeadLetter("The job of that name belongs to another object.")
        try:
            if job.seq is None:
                self._accept(session, job, uploaded.version)
        except JobNotChangeable as error:
            raise _DeadLetter("The job had ended before its content came.") from error
        return session.session_id

    def _writable(self, identity: Identity, session_id: str) -> Session:
        session = readable_session(self.sessions, identity, session_id)
        if not session.writable_by(identity):
            raise SessionNotFound("There is no such session, or you may not change it.")
        return session

    def _open(self, session: Session, kind: JobKind, upload_format: str, *, reindex: bool = False) -> Job:
        job_id = new_job_id(self.clock.now())
        key = object_key(kind, session.session_id, job_id, upload_format)
        return self._create(session, kind, job_id, key, reindex=reindex)

    def _create(self, session: Session, kind: JobKind, job_id: str, key: str, *, reindex: bool = False) -> Job:
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
        )
        self.jobs.create(job)
        return job

    def _store(self, session: Session, job: Job, content: bytes) -> Job:
        # The notification about this object may come before we go on: it then accepts the job, and we find it so.
        stored = self.objects.put(job.object_key, content, content_type=CONTENT_TYPES["jsonl"])
        return self._accept(session, job, stored.version)

    def _accept(self, session: Session, job: Job, version: str | None) -> Job:
        return self.jobs.accept(
            job.job_id, session_id=session.session_id, object_version=version, applied_seq=session.applied_seq
        )

    def _job_of(self, named: ObjectName, session: Session, uploaded: UploadedObject) -> Job:
        known_name = is_job_id(named.name)
        job_id = named.name if known_name else job_id_of_object(uploaded.key, uploaded.identity)
        if job := self.jobs.get(job_id):
            return job
        try:
            return self._create(session, named.kind, job_id, uploaded.key)
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
