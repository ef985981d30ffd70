"""JSON Lines → entries: a file or a change a line."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO

from strata.errors import CorruptArchive, UploadTooLarge
from strata.indexing.uploads.entries import UploadEntry, safe_path
from strata.indexing.uploads.metering import MAX_HEADER_BYTES, Meter
from strata.model.access import MAX_PRINCIPALS, PRINCIPAL
from strata.model.jobs import ChangeOp


def jsonl_entries(file: BinaryIO, meter: Meter) -> Iterator[UploadEntry]:
    """The files and changes of the lines, as `read_entries` gives them; a lone line feed is a list without files."""
    most = meter.caps.max_file_bytes * 8 + MAX_HEADER_BYTES  # a JSON escape takes up to six bytes a character
    number = 0
    while line := file.readline(most + 1):
        number += 1
        if len(line) > most:
            raise UploadTooLarge(f"Line {number} of the upload is longer than {most:,} bytes.")
        meter.count_bytes(len(line))
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield _jsonl_entry(line, number, meter)
    if number == 0:
        raise CorruptArchive("The upload has no bytes; an empty line stands for no files.")


def _jsonl_entry(line: bytes, number: int, meter: Meter) -> UploadEntry:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorruptArchive(f"Line {number} of the upload is not JSON.") from error
    if not isinstance(fields, dict):
        raise CorruptArchive(f"Line {number} of the upload is not a JSON object.")
    fault = f"Line {number} of the upload: "
    name = _field(fields, "path", str, fault)
    if name is None:
        raise CorruptArchive(f"{fault}it has no `path`.")
    op = _field(fields, "op", str, fault) or ChangeOp.UPSERT
    if op not in tuple(ChangeOp):
        raise CorruptArchive(f"{fault}`op` must be `upsert` or `delete`.")
    content, fail_reason = _jsonl_content(fields, fault)
    content_hash = _field(fields, "content_hash", str, fault)
    if content_hash is not None:
        content_hash = content_hash.lower().removeprefix("sha256:")
        if not re.fullmatch("[0-9a-f]{64}", content_hash):
            raise CorruptArchive(f"{fault}`content_hash` must be a SHA-256 in hex.")
    if op == ChangeOp.UPSERT and content is None and content_hash is None and fail_reason is None:
        raise CorruptArchive(f"{fault}it has neither `content`, `content_b64` nor `content_hash`.")
    acl = _acl(fields, fault)
    path, skip_reason = safe_path(name, acl)
    size = len(content) if content is not None else 0
    if size > meter.caps.max_file_bytes:
        content, skip_reason = None, skip_reason or meter.too_large()
    return UploadEntry(
        path=path,
        size_bytes=size,
        content=content if op == ChangeOp.UPSERT else None,
        content_hash=content_hash,
        acl=acl,
        names_rights="acl" in fields and op == ChangeOp.UPSERT,
        last_modified=_iso_moment(_field(fields, "last_modified", str, fault), fault),
        op=ChangeOp(op),
        skip_reason=skip_reason,
        fail_reason=fail_reason,
    )


def _jsonl_content(fields: Mapping[str, Any], fault: str) -> tuple[bytes | None, str | None]:
    text = _field(fields, "content", str, fault)
    encoded = _field(fields, "content_b64", str, fault)
    if text is not None and encoded is not None:
        raise CorruptArchive(f"{fault}it has both `content` and `content_b64`.")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True), None
        except (binascii.Error, ValueError) as error:
            raise CorruptArchive(f"{fault}`content_b64` is not base64.") from error
    if text is not None:
        try:
            return text.encode("utf-8"), None
        except UnicodeEncodeError:
            return None, "Its content holds half of a character."
    return None, None


def _field(fields: Mapping[str, Any], name: str, kind: type[str], fault: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, kind):
        raise CorruptArchive(f"{fault}`{name}` must be text.")
    return value


def _acl(fields: Mapping[str, Any], fault: str) -> tuple[str, ...] | None:
    """Sorted and without repetitions, so that the same rights compare as the same."""
    acl = fields.get("acl")
    if acl is None:
        return None
    if not isinstance(acl, list) or not all(isinstance(item, str) and _is_principal(item) for item in acl):
        raise CorruptArchive(f"{fault}`acl` must be a list of `user:…` and `group:…`, without blanks and commas.")
    if len(acl) > MAX_PRINCIPALS:
        raise CorruptArchive(f"{fault}`acl` names {len(acl):,} principals; {MAX_PRINCIPALS} are possible.")
    return tuple(sorted(set(acl)))


def _is_principal(text: str) -> bool:
    return re.search(PRINCIPAL.removesuffix("$") + r"\Z", text) is not None and text.isprintable()


def _iso_moment(text: str | None, fault: str) -> datetime | None:
    """An ISO 8601 time; one without a zone is in UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise CorruptArchive(f"{fault}`last_modified` is not an ISO 8601 time.") from error
