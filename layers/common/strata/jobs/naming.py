"""How sessions, jobs and their objects in S3 are called."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from strata.model.jobs import JobKind

SESSION_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
JOB_ID = r"^job-[0-9a-z]{26}$"
LETTER_ID = r"^letter-[0-9a-z]{26}$"
UPLOAD_FORMATS = ("tar.gz", "zip", "jsonl")
CONTENT_TYPES = {"tar.gz": "application/gzip", "zip": "application/zip", "jsonl": "application/x-ndjson"}

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's, without the letters that look like digits
EXECUTIONS_FOLDER = "executions"
"""What the states of an execution tell each other."""
_FOLDERS = {"uploads": JobKind.SNAPSHOT, "changes": JobKind.CHANGES}


def is_session_id(text: str) -> bool:
    """Whether the text can name a session at all: what can't is "not found" without asking a store."""
    return re.fullmatch(SESSION_ID, text) is not None


def is_job_id(text: str) -> bool:
    return re.fullmatch(JOB_ID, text) is not None


def new_job_id(now: datetime, *, random_bits: Callable[[int], int] = secrets.randbits) -> str:
    """`job-` and 26 characters (48 bits of milliseconds, 80 random ones): later jobs sort later."""
    return _job_id((int(now.timestamp() * 1000) << 80) | random_bits(80))


def job_id_of_object(key: str, version: str) -> str:
    """The job of an object that was put under a name of its sender's own: one job for each version of it."""
    return _job_id(_number_of(key, version))


def letter_id_of_object(key: str, version: str) -> str:
    """The dead letter of an object: one for each version of it, however often it is delivered."""
    return _letters("letter-", _number_of(key, version))


def is_letter_id(text: str) -> bool:
    return re.fullmatch(LETTER_ID, text) is not None


def _number_of(key: str, version: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{key}\x00{version}".encode(errors="replace")).digest()[:16], "big")


def _job_id(number: int) -> str:
    return _letters("job-", number)


def _letters(prefix: str, number: int) -> str:
    return prefix + "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -5, -5))


def new_session_id(*, random_bits: Callable[[int], int] = secrets.randbits) -> str:
    number = random_bits(80)
    return "session-" + "".join(_ALPHABET[(number >> shift) & 31] for shift in range(75, -5, -5))


def object_key(kind: JobKind, session_id: str, job_id: str, upload_format: str) -> str:
    """
    >>> object_key(JobKind.SNAPSHOT, "docs", "job-1", "tar.gz")
    'uploads/docs/job-1.tar.gz'

    The object of a roll-back says nothing; its notification wakes a worker, as a change's does.
    """
    folder = "uploads" if kind is JobKind.SNAPSHOT else "changes"
    return f"{folder}/{session_id}/{job_id}.{upload_format}"


def object_folders(session_id: str) -> list[str]:
    """
    >>> object_folders("docs")
    ['uploads/docs/', 'changes/docs/', 'executions/docs/']
    """
    return [f"{folder}/{session_id}/" for folder in (*_FOLDERS, EXECUTIONS_FOLDER)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectName:
    """What an object's key says. `name` is a job's id, or whatever a foreign sender chose."""

    kind: JobKind
    session_id: str
    name: str
    upload_format: str


def parse_object_key(key: str) -> ObjectName | None:
    """None for a key of another form: another folder, more or fewer parts, an unknown ending, an impossible session.

    >>> parse_object_key("uploads/docs/job-1.tar.gz").upload_format
    'tar.gz'
    """
    parts = key.split("/")
    if len(parts) != 3 or parts[0] not in _FOLDERS or not is_session_id(parts[1]):
        return None
    kind = _FOLDERS[parts[0]]
    for upload_format in UPLOAD_FORMATS if kind is JobKind.SNAPSHOT else ("jsonl",):
        name = parts[2].removesuffix(f".{upload_format}")
        if name and name != parts[2]:
            return ObjectName(kind=kind, session_id=parts[1], name=name, upload_format=upload_format)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedObject:
    """An object that has come into S3, as the notification tells; `key` is decoded.

    `version` is S3's version id where the bucket keeps versions; `sequencer` and `etag` tell versions apart elsewhere.
    """

    key: str
    size_bytes: int
    version: str | None = None
    sequencer: str | None = None
    etag: str | None = None

    @property
    def identity(self) -> str:
        """The same for every delivery of one notification, another one for an object put anew under the same key."""
        return self.version or self.sequencer or self.etag or ""
