"""What a caller sends to have something indexed, and what comes back at once."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from strata.contracts.jobs import JobView, SessionView, View
from strata.jobs.lifecycle import OpenedSnapshot
from strata.jobs.naming import SESSION_ID
from strata.jobs.reading import ShownJob
from strata.model.access import MAX_PRINCIPALS, PRINCIPAL
from strata.model.corpus import checked_path
from strata.model.jobs import ChangeOp

MAX_FILES = 20_000

_CONTENT_HASH = r"^[0-9a-f]{64}$"


def _described(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern})


def _checked(pattern: str, shape: str) -> AfterValidator:
    """Says in words what a text of another shape should have been: a pattern is no sentence."""

    def checked(text: str) -> str:
        if re.search(pattern.removesuffix("$") + r"\Z", text) is None:
            raise ValueError(f"must be {shape}")
        return text

    return AfterValidator(checked)


SessionName = Annotated[
    str,
    _described(SESSION_ID),
    _checked(SESSION_ID, "1 to 100 letters, digits, dots, dashes and underscores, the first a letter or a digit"),
]
PrincipalText = Annotated[
    str, _described(PRINCIPAL), _checked(PRINCIPAL, "`user:NAME` or `group:NAME`, without blanks and commas")
]
ContentHash = Annotated[
    str, _described(_CONTENT_HASH), _checked(_CONTENT_HASH, "a SHA-256 in 64 lower-case hexadecimal digits")
]
"""SHA-256 of the file's bytes, in lower-case hex."""
UploadFormat = Literal["tar.gz", "zip", "jsonl"]
_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")


class Request(BaseModel):
    """What is only ever received: nothing is guessed, an unknown field is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*")
    @classmethod
    def _whole_characters(cls, value: object) -> object:
        # JSON may name half a character ("\ud800"); no store and no file takes it.
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and _HALF_A_CHARACTER.search(text):
                raise ValueError("half a character")
        return value


class FileLine(Request):
    """A file with its content as text or in base64, or with its hash alone when that content was indexed before.

    Without `acl` a file keeps the list that it has, or had when it left the index. A list lets those read the file whom
    it names, an empty one nobody; null lets everybody read it who reads the session.
    """

    path: str
    content: str | None = None
    content_b64: str | None = None
    content_hash: ContentHash | None = None
    last_modified: AwareDatetime | None = None
    acl: Annotated[list[PrincipalText], Field(max_length=MAX_PRINCIPALS)] | None = None

    @field_validator("path")
    @classmethod
    def _inside_the_project(cls, path: str) -> str:
        return checked_path(path)

    @field_validator("content_b64")
    @classmethod
    def _is_base64(cls, content: str | None) -> str | None:
        if content is not None:
            try:
                base64.b64decode(content, validate=True)
            except (binascii.Error, ValueError) as error:
                raise ValueError("not base64") from error
        return content

    @model_validator(mode="after")
    def _content_is_clear(self) -> FileLine:
        if self.content is not None and self.content_b64 is not None:
            raise ValueError("give `content` or `content_b64`, not both")
        if self._needs_content() and self.content is None and self.content_b64 is None and self.content_hash is None:
            raise ValueError("give `content`, `content_b64` or `content_hash`")
        return self

    def _needs_content(self) -> bool:
        return True

    def json_line(self) -> bytes:
        line = self.model_dump_json(exclude_none=True)
        if self.acl is None and "acl" in self.model_fields_set and self._needs_content():
            line = f'{line[:-1]},"acl":null}}'
        return line.encode() + b"\n"


class Change(FileLine):
    """`upsert` writes the file, `delete` removes the path and carries nothing else."""

    op: ChangeOp

    @model_validator(mode="after")
    def _delete_is_bare(self) -> Change:
        extra = {"content", "content_b64", "content_hash", "last_modified", "acl"}
        if self.op is ChangeOp.DELETE and any(getattr(self, name) is not None for name in extra):
            raise ValueError("a delete carries a path only")
        return self

    def _needs_content(self) -> bool:
        return self.op is not ChangeOp.DELETE


def json_lines(files: Iterable[FileLine]) -> bytes:
    """The files as the JSON Lines of an upload, in their order."""
    return b"".join(file.json_line() for file in files)


class OpenSession(Request):
    """A snapshot for a new session, or for one of the caller's own.

    `project_id` and `readers` count when the session is new. `reindex` builds a new index beside the live one, which
    answers until the new one is whole, and can be rolled back to. With `files` the snapshot is the request itself;
    without, the reply says where the archive is to be posted.
    """

    session_id: SessionName | None = None
    project_id: SessionName | None = None
    format: UploadFormat = "tar.gz"
    readers: Annotated[list[PrincipalText], Field(max_length=MAX_PRINCIPALS)] = []
    reindex: bool = False
    files: Annotated[list[FileLine], Field(min_length=1, max_length=MAX_FILES)] | None = None

    def inline(self) -> bytes | None:
        return None if self.files is None else json_lines(self.files)


class UploadTarget(View):
    """Where the content goes: a multipart/form-data POST of every field of `fields`, then `file`."""

    url: str
    fields: Mapping[str, str]
    expires_in_s: int
    key: str


class SessionOpened(View):
    session: SessionView
    job: JobView
    upload: UploadTarget | None

    @classmethod
    def of(cls, opened: OpenedSnapshot, job: ShownJob) -> SessionOpened:
        post = opened.upload
        upload = (
            None
            if post is None
            else UploadTarget(
                url=post.url, fields=dict(post.fields), expires_in_s=post.expires_in_s, key=opened.job.object_key
            )
        )
        return cls(session=SessionView.of(opened.session), job=JobView.of(job), upload=upload)


class SetReaders(Request):
    """Who reads the session besides its owner, from now on."""

    readers: Annotated[list[PrincipalText], Field(max_length=MAX_PRINCIPALS)]


class PostChanges(Request):
    """Changes, applied in their order; the last one of a path counts."""

    changes: Annotated[list[Change], Field(min_length=1, max_length=MAX_FILES)]

    def lines(self) -> bytes:
        return json_lines(self.changes)


class ChangesAccepted(View):
    job: JobView


class RollBackAccepted(View):
    job: JobView


class IndexSnapshot(Request):
    """A snapshot in the body of another service's request; its fields mean what they mean to `OpenSession`."""

    session_id: SessionName
    project_id: SessionName | None = None
    readers: Annotated[list[PrincipalText], Field(max_length=MAX_PRINCIPALS)] = []
    reindex: bool = False
    files: Annotated[list[FileLine], Field(min_length=1, max_length=MAX_FILES)]

    def lines(self) -> bytes:
        return json_lines(self.files)


class IndexChanges(PostChanges):
    """Changes in the body of another service's request."""

    session_id: SessionName


class Indexed(View):
    """The job of a service's request: at its end if that came soon, else as it is now."""

    job: JobView
