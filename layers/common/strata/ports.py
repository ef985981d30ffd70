"""What the use cases need from the world: one Protocol a need, kept by an adapter and by a fake in tests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import BinaryIO, Protocol

from strata.errors import GeneratorRejected
from strata.model.access import Identity, Principal, Session
from strata.model.asking import Context, Expansion, IndexedText, Names, Question, Retrieved
from strata.model.chat import Completion, ModelUsage, Prompt
from strata.model.corpus import BlobKey, Chunk, FileEntry, Layer, Note, PreparedBlob, Vector, Vectors
from strata.model.jobs import Counters, DeadLetter, Job, JobEvent, Lease
from strata.model.links import Drifted, Links


class Clock(Protocol):
    def now(self) -> datetime:
        """The present time, in UTC, with its zone."""
        ...


class Advanced(Protocol):
    def __call__(self) -> None:
        """Called every few seconds inside a long step; it may raise to end it."""
        ...


def unwatched() -> None:
    """Nobody watches."""


class TokenCounter(Protocol):
    @property
    def max_tokens(self) -> int:
        """What one embedded text may hold, special tokens taken off already."""
        ...

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text as the embedder sees it, in order, special tokens not counted; not truncated."""
        ...


class Embedder(TokenCounter, Protocol):
    """Texts → unit vectors of one model. Never called with blank text; truncates what is over its limit."""

    @property
    def model_id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def languages(self) -> frozenset[str]:
        """ISO 639-1 codes of the languages whose meaning the model knows; empty where that is not known."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Raises `EmbedderUnavailable` (retry) or `EmbedderRejected` (wrong count, dimension, zero or non-finite)."""
        ...

    def embed_query(self, text: str) -> Vector: ...


class Generator(Protocol):
    @property
    def model_id(self) -> str: ...

    def generate(self, context: Context) -> Iterator[str]:
        """The answer's text in deltas, with `[n]` markers; nothing at all means "not found".

        A delta may cut a marker or a word anywhere; the caller joins them.
        """
        ...


class ChatModel(Protocol):
    """A prompt → a completion, in one call; a call is not repeated here."""

    @property
    def model_id(self) -> str: ...

    def complete(self, prompt: Prompt) -> Completion:
        """Raises `GeneratorUnavailable` (worth repeating), `GeneratorRejected` and `ConfigurationError`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Preambles:
    """One file's, in the order of its chunks, "" for a chunk that gets none; with a `refusal` there are none at all."""

    texts: tuple[str, ...] = ()
    usage: ModelUsage = field(default_factory=ModelUsage)
    refusal: GeneratorRejected | None = None


class Preambler(Protocol):
    """Says in a few words what each chunk is about within its file."""

    @property
    def version(self) -> str:
        """12 characters that stand for everything that the preambles depend on beside the file: model, prompt, limits.

        Part of the key of every prepared file.
        """
        ...

    @property
    def reserved_tokens(self) -> int:
        """What a preamble takes of a chunk's limit, by the embedder's count."""
        ...

    def preambles(self, files: Sequence[tuple[str, Sequence[Chunk]]], advanced: Advanced) -> list[Preambles]:
        """Those of each file, given as its text and its chunks, in order.

        Raises `GeneratorUnavailable` and `ConfigurationError`, for all of them, and what `advanced` raises.
        """
        ...


class Expander(Protocol):
    """What to search for beside a question: the question in other words, or a passage that could answer it."""

    @property
    def version(self) -> str:
        """Stands for model and prompt: part of the key under which what was found is kept."""
        ...

    def expand(self, question: Question) -> Expansion:
        """Within its time limit; whatever fails, the expansion is empty and says so in its `note`."""
        ...


class TextCache(Protocol):
    """Short texts by key, for a while (DynamoDB with TTL)."""

    def get_text(self, key: str) -> str | None: ...

    def put_text(self, key: str, text: str, *, ttl_s: int) -> None: ...


class PassageScorer(Protocol):
    """A cross-encoder: reads question and passage together."""

    @property
    def model_id(self) -> str: ...

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        """How well each passage answers, in order, finite, higher is better.

        Raises `RerankerUnavailable`, `RerankerRejected` and `ConfigurationError`.
        """
        ...


class Reranker(Protocol):
    def rerank(self, question: Question, retrieved: Retrieved) -> Retrieved:
        """The same candidates, best first, under scores of its own; what the caller prefers stays in front.

        One that fails leaves the order as it is and says so in `Retrieved.notes`.
        """
        ...


# --- storage: Postgres ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One job's effect on a session's index, as the plan found it.

    `upserts` are files to (re)write, each prepared in the cache under `keys[path]`; `rights` are files whose `acl` or
    `last_modified` alone changes; `deletes` are paths to remove.
    """

    session_id: str
    job_id: str
    seq: int
    fence: int
    upserts: tuple[FileEntry, ...]
    keys: Mapping[str, BlobKey]
    rights: tuple[FileEntry, ...]
    deletes: tuple[str, ...]
    counters: Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """`chunks` counts the whole index as the commit left it.

    `replayed`: this seq had been committed before (a lost reply); `counters` are then those of that commit.
    """

    generation: int
    chunks: int
    counters: Counters
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewIndex:
    """An index to be built beside the live one by one job; `keys` name every prepared file that it is going to hold."""

    session_id: str
    job_id: str
    seq: int
    fence: int
    embedding_model: str
    dimension: int
    pipeline_version: str
    keys: Collection[BlobKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipRequest:
    """A filled index is to go live; it must hold `files` files."""

    session_id: str
    job_id: str
    seq: int
    fence: int
    index_id: int
    files: int
    counters: Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBackRequest:
    """The index before the live one is to go live again."""

    session_id: str
    job_id: str
    seq: int
    fence: int


class SessionStore(Protocol):
    """Sessions and their indexed files (Postgres)."""

    def create(
        self,
        *,
        session_id: str,
        identity: Identity,
        project_id: str,
        embedding_model: str,
        dimension: int,
        pipeline_version: str,
        readers: Sequence[Principal] = (),
    ) -> tuple[Session, bool]:
        """The session and whether it is new. An existing one is returned if the caller may write it.

        Raises `SessionNameTaken` otherwise. Safe to call at the same time from many places.
        """
        ...

    def get(self, session_id: str) -> Session | None:
        """The session, whoever asks: the caller checks rights with `Session.readable_by`."""
        ...

    def list_readable(self, identity: Identity) -> list[Session]: ...

    def indexed_files(self, session_id: str, paths: Collection[str] | None = None) -> dict[str, FileEntry]:
        """What the active index holds, by path (also files without a chunk); with `paths` only those."""
        ...

    def length_drift(self, session_id: str) -> float:
        """How far average lengths have moved from the pinned ones, as a share of them, in the layer where it is most.

        Layers with few chunks don't count: 0.0 for a small session.
        """
        ...

    def commit(self, request: CommitRequest) -> CommitResult:
        """Apply one job in one transaction, under fence and seq.

        Raises `StaleFence` when a newer holder has committed; writes nothing then. A seq at or below the applied one
        of the same job is a replay and does nothing.
        """
        ...

    # A new index beside the live one: begun once everything is prepared, filled in batches, then live at once. Nobody
    # reads it before, and each step may be repeated: by the same holder, or by the next one on the same job.

    def applied(self, session_id: str, *, job_id: str, seq: int) -> CommitResult | None:
        """The result of this job, as a replay, if it has been applied (a lost reply); None otherwise."""
        ...

    def begin_index(self, new: NewIndex) -> int:
        """The number of the job's new index: an empty one, or the one that it has begun before with the same model.

        Average lengths are pinned by `new.keys`. Raises `SessionNotFound` and `StaleFence`.
        """
        ...

    def fill(
        self, index_id: int, *, job_id: str, fence: int, entries: Sequence[FileEntry], keys: Mapping[str, BlobKey]
    ) -> int:
        """Write a batch of prepared files in one transaction; one that is there already stays. The chunks written.

        Batches of one holder may be written at the same time, from several processes. Raises `StaleFence` when the
        index is not this holder's to fill, `TemporaryError` for a file not prepared.
        """
        ...

    def in_new_process(self) -> SessionStore:
        """The same store for a process that was just forked: a connection can't be shared."""
        ...

    def flip(self, request: FlipRequest) -> CommitResult:
        """Make the filled index the live one, under fence and seq as `commit`; the one before is kept if it has files.

        The session's model, dimension and pipeline are those of the new index from then on.
        """
        ...

    def roll_back(self, request: RollBackRequest) -> CommitResult:
        """Make the index before the live one again, under fence and seq as `commit`; a second time undoes that.

        Raises `NoEarlierIndex`.
        """
        ...

    def collect_indexes(self, session_id: str, *, but_of_job: str | None = None, advanced: Advanced = unwatched) -> int:
        """Remove indexes that are neither live nor the one before, nor being filled by that job; how many.

        `advanced` is called every few seconds; what it raises comes through, and the next call goes on.
        """
        ...

    def claim(self, session_id: str, fence: int) -> None:
        """From now on nothing is committed under an older fence. Raises `SessionNotFound` and `StaleFence`."""
        ...

    def set_readers(self, session_id: str, readers: Sequence[Principal]) -> Session:
        """Raises `SessionNotFound`. It takes effect with the next statement of any reader."""
        ...

    def delete(self, session_id: str, fence: int) -> bool:
        """Remove the session if its fence is older than this one: nobody finds it any more, and its name stays taken
        until `end_purge`. Whether the session is gone; False for a newer one of the same name. Safe to repeat.

        A later session of that name goes on with the numbers of this one: fence, seq and generation.
        """
        ...

    def purge(self, session_id: str) -> bool:
        """Remove a part of what a deleted session has left: rows, and the cache of a repository that no session is
        left of. True as long as there may be more.
        """
        ...

    def end_purge(self, session_id: str) -> None:
        """The name is free."""
        ...


class BlobCache(Protocol):
    """Prepared files by content (Postgres)."""

    def present(self, keys: Collection[BlobKey]) -> set[BlobKey]: ...

    def contents(self, keys: Collection[BlobKey]) -> dict[BlobKey, bytes]:
        """The bytes of these files where they are on record, whatever model or pipeline prepared them."""
        ...

    def notes(self, keys: Collection[BlobKey]) -> dict[str, tuple[Note, ...]]:
        """By path, what parsers say about those of these files that they say anything about."""
        ...

    def in_new_process(self) -> BlobCache:
        """The same cache for a process that was just forked: a connection can't be shared."""
        ...

    def earlier_vectors(self, keys: Collection[BlobKey]) -> Mapping[bytes, Vector]:
        """The vectors of the last prepared version of each of these files, whatever its content, by `Chunk.text_key`:
        of the same tenant, repository, path, pipeline and model. As they are stored, in half precision.
        """
        ...

    def usage(self, keys: Collection[BlobKey], *, since: datetime) -> ModelUsage:
        """What chat models used for those of these files that were kept since then."""
        ...

    def keep(self, blobs: Sequence[PreparedBlob]) -> None:
        """Store prepared files in one transaction; one that is there already stays as it is. Safe to repeat.

        Raises `SessionNotFound` when the last session of their repository was deleted.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A question ready for the database: `embedding` is None for a lexical-only search, `terms` may be empty.

    `names` are what the question asks for letter for letter: rows that hold them are a list of their own; so are the
    neighbours of the best rows over links, unless `structural_weight` is 0. Each list gives `depth` rows to the fusion,
    under its weight. `rows` of the fused ones come back, and never fewer than the question's limit: whoever ranks them
    anew needs more than are shown. Unless `approximate` is false, the dense list of a large index may come from the
    cells nearest to the question instead of a look at every row.
    """

    question: Question
    embedding: Vector | None
    embedding_model: str | None
    terms: tuple[str, ...]
    depth: int
    names: Names = field(default_factory=Names)
    rows: int = 0
    dense_weight: float = 1.0
    lexical_weight: float = 1.0
    exact_weight: float = 1.0
    structural_weight: float = 0.0
    approximate: bool = True


class ChunkSearch(Protocol):
    """Reads for one caller (Postgres, as the restricted role, under row-level security)."""

    def search(self, request: SearchRequest) -> Retrieved:
        """Dense and lexical lists of `depth` rows each, fused, best first, at most as many rows as are asked for.

        Raises `SessionNotFound` (also without the right to read it) and `EmbeddingModelMismatch`.
        """
        ...

    def files(
        self, session_id: str, identity: Identity, paths: Sequence[str], *, layers: Sequence[Layer] = (), limit: int
    ) -> Retrieved:
        """The chunks of these paths, unranked (score 0), in the order of the paths; raises `SessionNotFound`."""
        ...

    def generation(self, session_id: str, identity: Identity) -> tuple[int, str]:
        """The session's generation and embedding model; raises `SessionNotFound`."""
        ...

    def sources(self, session_id: str, identity: Identity, chunk_ids: Sequence[int]) -> dict[int, str]:
        """The whole decoded text of the file behind each chunk that the caller may read; others are absent."""
        ...

    def file_page(
        self, session_id: str, identity: Identity, *, after: str, limit: int, most_bytes: int
    ) -> list[IndexedText]:
        """The next files behind the path `after`, in the store's order of paths: at most `limit`, and not another one
        once `most_bytes` are reached. Empty when there are no more; raises `SessionNotFound`.
        """
        ...


class LinkReader(Protocol):
    """Links between files, for one caller: nothing tells of a file that the caller may not read (Postgres)."""

    def links(
        self, session_id: str, identity: Identity, *, path: str | None = None, symbol: str | None = None, limit: int
    ) -> Links:
        """Those of a file, or of a symbol by its qualified name or the end of it; `limit` each way.

        Raises `SessionNotFound`.
        """
        ...

    def drift(self, session_id: str, identity: Identity, *, limit: int) -> list[Drifted]:
        """Names of files and symbols in documents that nothing readable defines, by path and line.

        Raises `SessionNotFound`.
        """
        ...


# --- storage: DynamoDB and S3 --------------------------------------------------------------------------------------


class JobStore(Protocol):
    """Jobs and their events (DynamoDB). Every transition is a conditional write."""

    def create(self, job: Job) -> None: ...

    def get(self, job_id: str) -> Job | None: ...

    def for_session(self, session_id: str, *, limit: int = 50) -> list[Job]:
        """Newest first."""
        ...

    def accept(self, job_id: str, *, session_id: str, object_version: str | None, applied_seq: int) -> Job:
        """`awaiting_upload` → `queued` with the session's next seq, in one TransactWrite; one that was accepted
        before is returned as it is. A session item that is missing or behind is seeded from `applied_seq`.

        Raises `JobNotFound`, `SessionNotFound` for a session that is being deleted, and, for a job that ended before
        its content came, `JobNotChangeable`.
        """
        ...

    def next_queued(self, session_id: str) -> Job | None:
        """The accepted job with the smallest seq above `done_seq`, whatever its state; None when all are done."""
        ...

    def start(self, job_id: str, lease: Lease) -> Job: ...

    def begin_commit(self, job_id: str, lease: Lease) -> None:
        """The point of no return: from here on a cancel is refused. Safe to repeat.

        Raises `JobCancelled` when the cancel came first, and `LockLost` when another worker has begun the job.
        """
        ...

    def hand_over(self, job_id: str, lease: Lease) -> None:
        """The worker stops because of its own time: its start does not count. Nothing happens to another's job."""
        ...

    def cancel(self, job_id: str) -> Job:
        """End a job that waits (`cancelled`), or ask the worker of a running one to end it.

        Raises `JobNotFound` and, for a job that has ended or is being committed, `JobNotChangeable`.
        """
        ...

    def put_back(self, failed: Job, again: Job) -> None:
        """Create `again` from a failed job, once. Raises `JobNotChangeable` for one that has not failed or was put back
        before.
        """
        ...

    def failed(self, tenant: str, *, limit: int = 50) -> list[Job]:
        """The tenant's jobs that ended as `error` and were not put back; newest first."""
        ...

    def waiting_sessions(self, now: datetime, *, limit: int) -> list[str]:
        """Sessions that somebody should be working on and nobody is: jobs wait, or a deletion does, and no lease runs.

        One query, whatever the number of sessions; it may be seconds behind.
        """
        ...

    def late_uploads(self, now: datetime, *, limit: int) -> list[Job]:
        """Jobs that still await an upload after their time; one query, it may be seconds behind."""
        ...

    def remove_session(self, session_id: str, *, before: datetime) -> None:
        """Remove the session's jobs that are older than that, with their events and places. Safe to repeat."""
        ...

    def finish(self, job: Job, lease: Lease) -> None:
        """The job's end (`done`, `error`, `cancelled`) and `done_seq`, together, guarded by the fence.

        A failed job whose cancel was asked for ends as `cancelled`: see `Job.ending`.
        Raises `LockLost` when the fence is no longer the present one.
        """
        ...

    def reject(self, job: Job) -> None:
        """End a job that was never accepted (`error`, `expired`); it holds no place in the order."""
        ...

    def append_event(self, job_id: str, name: str, data: Mapping[str, object]) -> JobEvent: ...

    def events_after(self, job_id: str, seq: int) -> list[JobEvent]: ...

    def dead_letter(self, letter: DeadLetter) -> None:
        """Record an upload that could not become a job; the same letter twice is one."""
        ...

    def get_dead_letter(self, letter_id: str) -> DeadLetter | None: ...

    def dead_letters(self, tenant: str | None, *, limit: int = 50) -> list[DeadLetter]:
        """The letters of the tenant's sessions, or (None) those of no session; newest first."""
        ...

    def remove_dead_letter(self, letter_id: str) -> None: ...


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """A session to be drained; `job_id` is accepted before: its content is in S3, but no notification told of it."""

    session_id: str
    job_id: str | None = None


class WorkerCalls(Protocol):
    """Asks for a worker without waiting for it."""

    def send(self, order: WorkOrder) -> None:
        """A worker comes soon. Raises `StoreUnavailable`; the sweep then asks again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    key: str
    size_bytes: int
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PresignedPost:
    """What a client posts as multipart/form-data: every field of `fields`, then `file`."""

    url: str
    fields: Mapping[str, str]
    expires_in_s: int


class ObjectStore(Protocol):
    """S3."""

    def put(self, key: str, body: bytes, *, content_type: str) -> StoredObject: ...

    def head(self, key: str, *, version: str | None = None) -> StoredObject | None: ...

    def download(self, key: str, *, version: str | None = None, max_bytes: int) -> AbstractContextManager[BinaryIO]:
        """The object as a seekable file on local disk, removed at the end; exactly that version of it, or the present
        one where the bucket keeps none. Raises `UploadTooLarge` before reading and `UploadRejected` for one that is
        gone.
        """
        ...

    def remove_all(self, prefix: str, *, before: datetime) -> None:
        """Remove every version of every object under the prefix that is older than that. Safe to repeat."""
        ...

    def presigned_post(self, key: str, *, max_bytes: int, content_type: str, expires_in_s: int) -> PresignedPost: ...


class ExecutionState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Executions(Protocol):
    """Runs of the state machine for large snapshots (Step Functions), named by their job."""

    def start(self, job: Job) -> ExecutionState:
        """Start the job's execution, once: one that was started before is looked at instead."""
        ...


class QueryCache(Protocol):
    """The exact cache of retrieved candidates (DynamoDB with TTL)."""

    def get(self, key: str) -> Retrieved | None: ...

    def put(self, key: str, retrieved: Retrieved, *, ttl_s: int) -> None: ...
