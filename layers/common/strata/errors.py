"""Every error that Strata raises on purpose.

    StrataError
    ├── InvalidRequest            the caller sent something that can never work
    │   ├── InvalidQuery          empty, too long, or without a single word
    │   ├── UnknownLayer
    │   └── InvalidPath           absolute, outside the project, or not a path at all
    ├── Unauthenticated           no claims came with the request
    ├── Forbidden                 the claims lack the scope that this route asks for
    ├── NotFound
    │   ├── SessionNotFound       also what a caller sees who may not read the session
    │   ├── JobNotFound
    │   └── RouteNotFound
    ├── Conflict
    │   ├── SessionNameTaken
    │   ├── EmbeddingModelMismatch
    │   ├── NoEarlierIndex        nothing to roll back to
    │   ├── JobNotChangeable      a job that has ended can't change its state
    │   └── UploadGone            what should be worked on again is no longer in the bucket
    ├── UploadRejected            the job ends as `error`; nothing is written
    │   ├── CorruptArchive
    │   ├── UnsafeEntry           a path that leaves the project, or a link
    │   └── UploadTooLarge        size, count, total or ratio above its cap
    ├── FileUnreadable            one file fails alone, with its reason
    ├── StaleFence                a newer holder has committed since
    ├── LockLost                  the lease ran out or was taken over
    ├── JobCancelled              its owner does not want the job any more
    ├── EmbedderRejected          the embedder answered with something that is no vector of this model
    ├── GeneratorRejected         the chat model refused the text, or answered with nothing
    ├── RerankerRejected          the reranker refused the rows, or answered with something that is no score of them
    ├── ConfigurationError        a setting is missing or wrong; the text names it
    └── TemporaryError            the same call may succeed later: retried with backoff
        ├── StoreUnavailable
        ├── EmbedderUnavailable
        ├── GeneratorUnavailable
        ├── RerankerUnavailable
        ├── WorkerLost            a process that prepared files has ended
        ├── SessionBusy           another worker holds the session's lock
        ├── DeadlineExceeded      the answer took longer than this call may
        └── HandedOver            a worker's time was nearly over; the next delivery goes on where it stopped

A class is a fact; its docstring is the sentence that a person reads when no better one is given.
A foreign error is translated once, in its adapter, ``from`` its cause. Status codes belong to
`strata.edge.http`. State machines retry by class name, so a name is an interface.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutFile:
    """What is wrong with one file: a sentence for those who may read it (`acl` is the file's own, as it was sent)."""

    path: str
    reason: str
    acl: tuple[str, ...] | None = None


class StrataError(Exception):
    """Something in Strata went wrong.

    The message names no file, for it goes to everybody who may know of the job; `about` says which one it is.
    """

    def __init__(self, message: str | None = None, *, about: AboutFile | None = None) -> None:
        super().__init__(message or inspect.cleandoc(type(self).__doc__ or type(self).__name__).splitlines()[0])
        self.about = about

    @property
    def message(self) -> str:
        """One sentence for a person: what happened and what to do."""
        return str(self.args[0])

    @property
    def code(self) -> str:
        """The class name in snake_case, stable: clients branch on it.

        >>> SessionNotFound().code
        'session_not_found'
        """
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()


class InvalidRequest(StrataError):
    """The request is not valid."""


class InvalidQuery(InvalidRequest):
    """The question holds nothing to search for."""


class UnknownLayer(InvalidRequest):
    """There is no such layer."""


class InvalidPath(InvalidRequest):
    """The path must be relative and stay inside the project."""


class Unauthenticated(StrataError):
    """Sign in: the request carries no valid token."""


class Forbidden(StrataError):
    """This route is for other services: the caller's token lacks the scope for it."""


class NotFound(StrataError):
    """There is no such thing here."""


class SessionNotFound(NotFound):
    """There is no such session, or you may not read it."""


class JobNotFound(NotFound):
    """There is no such job, or you may not read it."""


class RouteNotFound(NotFound):
    """There is no such route."""


class Conflict(StrataError):
    """The request does not fit the present state."""


class SessionNameTaken(Conflict):
    """This session name belongs to somebody else; choose another."""


class EmbeddingModelMismatch(Conflict):
    """The session was built with another embedding model; index it anew with the present one."""


class NoEarlierIndex(Conflict):
    """There is no index before the present one: only a large or requested re-index keeps one."""


class JobNotChangeable(Conflict):
    """The job has ended; its state can't change any more."""


class UploadGone(Conflict):
    """The upload is no longer in the bucket; send it again."""


class UploadRejected(StrataError):
    """The upload can't be indexed; nothing was written and the index before still answers."""


class CorruptArchive(UploadRejected):
    """The upload can't be read: it is not a whole tar.gz, zip or JSON Lines file."""


class UnsafeEntry(UploadRejected):
    """The upload holds a path that leaves the project, or a link; nothing was written."""


class UploadTooLarge(UploadRejected):
    """The upload is larger than this deployment accepts."""


class FileUnreadable(StrataError):
    """This file can't be read as text."""


class StaleFence(StrataError):
    """A newer holder of the session's lock has committed since; nothing was written."""


class LockLost(StrataError):
    """The lease on the session has run out; another worker goes on."""


class JobCancelled(StrataError):
    """The job was cancelled before its commit; nothing was written."""


class EmbedderRejected(StrataError):
    """The embedder answered with something that is no vector of its model."""


class GeneratorRejected(StrataError):
    """The chat model refused the text, or answered with nothing."""


class RerankerRejected(StrataError):
    """The reranker refused the rows, or did not score each of them."""


class ConfigurationError(StrataError):
    """A setting is missing or wrong."""


class TemporaryError(StrataError):
    """The same call may succeed later."""


class StoreUnavailable(TemporaryError):
    """A store can't be reached just now."""


class EmbedderUnavailable(TemporaryError):
    """The embedder can't be reached just now."""


class GeneratorUnavailable(TemporaryError):
    """The chat model can't be reached just now."""


class RerankerUnavailable(TemporaryError):
    """The reranker can't be reached just now."""


class WorkerLost(TemporaryError):
    """A process that prepared files ended in the middle of its work."""


class SessionBusy(TemporaryError):
    """Another worker holds the session's lock; this one's turn comes."""


class DeadlineExceeded(TemporaryError):
    """The answer took longer than this call may; ask again."""


class HandedOver(TemporaryError):
    """The worker's time was nearly over; the next delivery goes on where it stopped."""
