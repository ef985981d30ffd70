"""Uploads as streams: tar.gz, zip and JSON Lines → entries, one at a time, in constant memory.

Nothing is extracted. A path is checked before its content is looked at: one that would leave the project, a link or
a device ends the whole upload (`UnsafeEntry`); directories are passed over; a common leading folder stays. Paths are
NFC. A path that comes twice is yielded twice: the later one counts, which `pipeline` sees to. What is decompressed is
counted while it is read, whatever the headers promise. A file above `max_file_bytes` is read past, never kept.
An archive inside an archive is a file like any other.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import stat
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO, Protocol

from strata.errors import CorruptArchive, InvalidPath, UnsafeEntry, UploadTooLarge
from strata.model.corpus import checked_path
from strata.model.jobs import ChangeOp

_READ_BYTES = 64 * 1024
_BLOCK = tarfile.BLOCKSIZE
_MAX_HEADER_BYTES = 1024 * 1024
"""A pax header or a long name above this is an attack: it would be held in memory."""
_RATIO_COUNTS_FROM_BYTES = 16 * 1024 * 1024
"""Small archives may shrink by any ratio: a few hundred bytes of zip hold no bomb worth the name."""
_DIRECTORY_BYTES_PER_ENTRY = 256


class Caps(Protocol):
    """What one upload may hold; `max_ratio` is unpacked to packed bytes."""

    @property
    def max_entries(self) -> int: ...
    @property
    def max_file_bytes(self) -> int: ...
    @property
    def max_total_bytes(self) -> int: ...
    @property
    def max_ratio(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadEntry:
    """One file of an upload.

    `content` is None for a delete, for a file sent by hash alone, and where a reason says why it was not read:
    `skip_reason` (not to be indexed) or `fail_reason` (the file fails alone).
    """

    path: str
    size_bytes: int
    content: bytes | None = None
    content_hash: str | None = None
    acl: tuple[str, ...] | None = None
    last_modified: datetime | None = None
    op: ChangeOp = ChangeOp.UPSERT
    skip_reason: str | None = None
    fail_reason: str | None = None


def read_entries(file: BinaryIO, upload_format: str, caps: Caps) -> Iterator[UploadEntry]:
    """The files of an upload in its own order; `file` is seekable and is read from its beginning.

    Raises `CorruptArchive`, `UnsafeEntry` or `UploadTooLarge` when the entry at fault is reached.
    """
    readers = {"tar.gz": _tar_entries, "zip": _zip_entries, "jsonl": _jsonl_entries}
    if upload_format not in readers:
        raise CorruptArchive(f"There is no upload format {upload_format[:20]!r}; known are {', '.join(readers)}.")
    packed_bytes = file.seek(0, 2)
    file.seek(0)
    meter = _Meter(caps, packed_bytes)
    for entry in readers[upload_format](file, meter):
        meter.count_entry()
        yield entry


class _Meter:
    """Counts what was unpacked so far against the caps."""

    def __init__(self, caps: Caps, packed_bytes: int) -> None:
        self.caps = caps
        self._packed_bytes = packed_bytes
        self._bytes = 0
        self._entries = 0

    def count_bytes(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self.caps.max_total_bytes:
            raise UploadTooLarge(f"The upload unpacks to more than {self.caps.max_total_bytes:,} bytes.")
        if self._bytes > max(_RATIO_COUNTS_FROM_BYTES, self._packed_bytes * self.caps.max_ratio):
            raise UploadTooLarge(f"The upload unpacks to more than {self.caps.max_ratio} times its own size.")

    def count_entry(self) -> None:
        self._entries += 1
        if self._entries > self.caps.max_entries:
            raise UploadTooLarge(f"The upload holds more than {self.caps.max_entries:,} entries.")

    def too_large(self) -> str:
        return f"It is larger than {self.caps.max_file_bytes:,} bytes."


# --- paths ---------------------------------------------------------------------------------------------------------


def _safe_path(name: str) -> tuple[str, str | None]:
    """The path as it is stored, and the reason to skip it if it can't be one. Raises `UnsafeEntry`."""
    try:
        return checked_path(unicodedata.normalize("NFC", name)), None
    except InvalidPath as error:
        shown = _shown(name)
        drive = len(name) > 1 and name[1] == ":"
        if name.startswith("/") or "\\" in name or drive or ".." in name.split("/"):
            raise UnsafeEntry(f"The upload holds {shown!r}, which is not inside the project.") from error
        printable = "".join(character if character.isprintable() else "\ufffd" for character in shown)
        return printable, f"Its name can't be a path: {error.message}"


def _shown(name: str) -> str:
    return name[:200].encode("utf-8", "replace").decode("utf-8")


# --- tar.gz --------------------------------------------------------------------------------------------------------


class _Gunzip:
    """The bytes inside a gzip file of one or more members, forward only, checked to its last CRC."""

    def __init__(self, file: BinaryIO, meter: _Meter) -> None:
        self._file = file
        self._meter = meter
        self._inflate = zlib.decompressobj(wbits=31)
        self._packed = b""
        self._started = False

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes, fewer at the end of the stream."""
        pieces: list[bytes] = []
        while size > 0 and (piece := self._some(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def skip(self, size: int) -> None:
        while size > 0:
            read = len(self.read(min(size, _READ_BYTES)))
            if not read:
                raise CorruptArchive("The archive ends in the middle of a file.")
            size -= read

    def drain(self) -> None:
        while self._some(_READ_BYTES):
            pass

    def _some(self, size: int) -> bytes:
        while True:
            if self._inflate.eof:
                rest = (self._inflate.unused_data or self._packed).lstrip(b"\0")
                self._packed = rest or self._file.read(_READ_BYTES).lstrip(b"\0")
                if not self._packed:
                    if self._file.read(1):
                        self._file.seek(-1, 1)
                        continue
                    return b""
                self._inflate = zlib.decompressobj(wbits=31)
            elif not self._packed:
                self._packed = self._file.read(_READ_BYTES)
                if not self._packed:
                    raise CorruptArchive(
                        "The archive is cut short: its gzip stream has no end."
                        if self._started
                        else "The archive is empty."
                    )
            try:
                piece = self._inflate.decompress(self._packed, min(size, _READ_BYTES))
            except zlib.error as error:
                raise CorruptArchive("The archive is not a sound gzip file.") from error
            self._started = True
            self._packed = self._inflate.unconsumed_tail
            if piece:
                self._meter.count_bytes(len(piece))
                return piece


def _tar_entries(file: BinaryIO, meter: _Meter) -> Iterator[UploadEntry]:
    return _Tar(_Gunzip(file, meter), meter).entries()


class _Tar:
    """The files of a tar stream; what pax and GNU headers say is applied to the member that they stand before."""

    def __init__(self, stream: _Gunzip, meter: _Meter) -> None:
        self._stream = stream
        self._meter = meter
        self._global: dict[str, str] = {}
        self._attributes: dict[str, str] = {}
        self._long_name: str | None = None

    def entries(self) -> Iterator[UploadEntry]:
        is_empty = True
        while header := self._stream.read(_BLOCK):
            is_empty = False
            if header.count(0) == _BLOCK:
                break
            member = _tar_member(header)
            if not self._took_header(member) and (entry := self._entry(member)):
                yield entry
        if is_empty:
            raise CorruptArchive("The archive holds no tar file.")
        self._stream.drain()

    def _took_header(self, member: tarfile.TarInfo) -> bool:
        """Whether the member was a header for the next one (or for all that follow)."""
        if member.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
            self._attributes = _pax_records(self._header_data(member.size))
        elif member.type == tarfile.XGLTYPE:
            self._global |= _pax_records(self._header_data(member.size))
        elif member.type == tarfile.GNUTYPE_LONGNAME:
            self._long_name = self._header_data(member.size).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
        elif member.type == tarfile.GNUTYPE_LONGLINK:
            self._header_data(member.size)
        else:
            return False
        return True

    def _header_data(self, size: int) -> bytes:
        if size > _MAX_HEADER_BYTES:
            raise CorruptArchive("The archive holds a tar header of more than a megabyte.")
        data = self._stream.read(_padded(size))
        if len(data) < _padded(size):
            raise CorruptArchive("The archive ends in the middle of a header.")
        return data[:size]

    def _entry(self, member: tarfile.TarInfo) -> UploadEntry | None:
        """The file, or None for a directory."""
        attributes, self._attributes = self._global | self._attributes, {}
        name, self._long_name = attributes.get("path", self._long_name or member.name), None
        size = _tar_size(attributes["size"]) if "size" in attributes else member.size
        shown = _shown(name)
        if member.type == tarfile.GNUTYPE_SPARSE or any(key.startswith("GNU.sparse") for key in attributes):
            raise UnsafeEntry(f"The upload holds {shown!r}, a sparse file; only plain files are accepted.")
        if member.type == tarfile.DIRTYPE:
            _check_directory(name)
            self._meter.count_entry()
            self._stream.skip(_padded(size))
            return None
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE):
            raise UnsafeEntry(f"The upload holds {shown!r}, which is a link or a device; only files are accepted.")
        path, skip_reason = _safe_path(name)
        if skip_reason is None and size > self._meter.caps.max_file_bytes:
            skip_reason = self._meter.too_large()
        content: bytes | None = None
        if skip_reason is None:
            content = self._stream.read(size)
            if len(content) < size:
                raise CorruptArchive(f"The archive ends in the middle of {path!r}.")
        self._stream.skip(_padded(size) - (size if content is not None else 0))
        return UploadEntry(
            path=path,
            size_bytes=size,
            content=content,
            last_modified=_moment(attributes.get("mtime", member.mtime)),
            skip_reason=skip_reason,
        )


def _tar_member(header: bytes) -> tarfile.TarInfo:
    if len(header) < _BLOCK:
        raise CorruptArchive("The archive ends in the middle of a header.")
    try:
        member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise CorruptArchive("The archive holds a damaged tar header.") from error
    if member.size < 0:
        raise CorruptArchive("The archive holds a file of negative size.")
    return member


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _pax_records(data: bytes) -> dict[str, str]:
    """The records `<length> <key>=<value>\\n` of a pax header."""
    records: dict[str, str] = {}
    position = 0
    while position < len(data) and data[position] != 0:
        found = re.compile(rb"(\d{1,8}) ").match(data, position)
        length = int(found[1]) if found else 0
        record = data[position : position + length]
        if not found or len(record) < length or not record.endswith(b"\n") or b"=" not in record:
            raise CorruptArchive("The archive holds a damaged pax header.")
        key, _, value = record[found.end() - position : -1].partition(b"=")
        records[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
        position += length
    return records


def _tar_size(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise CorruptArchive("The archive holds a damaged pax header.")
    return int(text)


def _check_directory(name: str) -> None:
    if name.strip("/.") or ".." in name.split("/"):
        _safe_path(name.rstrip("/") if name.rstrip("/") else name)


def _moment(seconds: object) -> datetime | None:
    """A time stamp in seconds; None for what is no sensible one (zero stands for "not known")."""
    try:
        value = float(str(seconds))
        return datetime.fromtimestamp(math.floor(value), UTC) if 0 < value < 253_402_300_800 else None
    except (ValueError, OverflowError, OSError):
        return None


# --- zip -----------------------------------------------------------------------------------------------------------


class _BoundedReads:
    """A file that refuses one large read: `zipfile` reads a directory of any size into memory."""

    def __init__(self, file: BinaryIO, caps: Caps) -> None:
        self._file = file
        self._most = max(_MAX_HEADER_BYTES, caps.max_entries * _DIRECTORY_BYTES_PER_ENTRY)
        self.tell = file.tell
        self.seekable = file.seekable

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0 and offset < 0:
            raise zipfile.BadZipFile("its list of entries points outside the file")
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        if size > self._most:
            raise UploadTooLarge("The archive's list of entries is too long.")
        return self._file.read(size if size >= 0 else self._most)


_ZIP_FAULTS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    IndexError,
    NotImplementedError,
    RuntimeError,  # an encrypted entry
    ValueError,
    OverflowError,
    UnicodeError,
)


def _zip_entries(file: BinaryIO, meter: _Meter) -> Iterator[UploadEntry]:
    try:
        with zipfile.ZipFile(_BoundedReads(file, meter.caps)) as archive:
            for info in archive.infolist():
                mode = info.external_attr >> 16
                kind = stat.S_IFMT(mode)
                name = _zip_name(info)
                if name.endswith("/") or kind == stat.S_IFDIR:
                    _check_directory(name)
                    meter.count_entry()
                    continue
                if kind not in (0, stat.S_IFREG):
                    raise UnsafeEntry(
                        f"The upload holds {_shown(name)!r}, a link or a device; only files are accepted."
                    )
                path, skip_reason = _safe_path(name)
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise CorruptArchive(
                        f"{path!r} is compressed in a way that is not accepted (stored and deflated are)."
                    )
                content, size = None, info.file_size
                if skip_reason is None:
                    content, size = _zip_content(archive, info, meter)
                    skip_reason = None if content is not None else meter.too_large()
                yield UploadEntry(
                    path=path,
                    size_bytes=size,
                    content=content,
                    last_modified=_zip_moment(info),
                    skip_reason=skip_reason,
                )
    except _ZIP_FAULTS as error:
        raise CorruptArchive(f"The archive is not a sound zip file: {str(error)[:200]}") from error


def _zip_content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, meter: _Meter) -> tuple[bytes | None, int]:
    """The content, or None when it is over the cap, and the size as far as it was read."""
    if info.file_size > meter.caps.max_file_bytes:
        return None, info.file_size
    pieces: list[bytes] = []
    size = 0
    with archive.open(info) as member:
        while piece := member.read(_READ_BYTES):
            meter.count_bytes(len(piece))
            size += len(piece)
            if size > meter.caps.max_file_bytes:
                return None, size
            pieces.append(piece)
    if size != info.file_size:
        raise CorruptArchive(f"The archive's list gives {info.filename[:200]!r} another size than it has.")
    return b"".join(pieces), size


def _zip_name(info: zipfile.ZipInfo) -> str:
    """The name as stored: UTF-8, also without the flag that says so (macOS leaves it out), else code page 437."""
    name = info.orig_filename
    if not info.flag_bits & 0x800:
        try:
            return name.encode("cp437").decode("utf-8")
        except UnicodeError:
            return name
    return name


def _zip_moment(info: zipfile.ZipInfo) -> datetime | None:
    """The entry's time; zip knows no zone, UTC is taken. 1980-01-01 is what tools write for "not known"."""
    try:
        moment = datetime(*info.date_time, tzinfo=UTC)
    except ValueError:
        return None
    return moment if moment.year > 1980 else None


# --- JSON Lines ----------------------------------------------------------------------------------------------------


def _jsonl_entries(file: BinaryIO, meter: _Meter) -> Iterator[UploadEntry]:
    most = meter.caps.max_file_bytes * 8 + _MAX_HEADER_BYTES  # a JSON escape takes up to six bytes a character
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


def _jsonl_entry(line: bytes, number: int, meter: _Meter) -> UploadEntry:
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
    path, skip_reason = _safe_path(name)
    size = len(content) if content is not None else 0
    if size > meter.caps.max_file_bytes:
        content, skip_reason = None, skip_reason or meter.too_large()
    return UploadEntry(
        path=path,
        size_bytes=size,
        content=content if op == ChangeOp.UPSERT else None,
        content_hash=content_hash,
        acl=_acl(fields, fault),
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
        raise CorruptArchive(f"{fault}`acl` must be a list of `user:…` and `group:…`.")
    return tuple(sorted(set(acl)))


def _is_principal(text: str) -> bool:
    kind, separator, name = text.partition(":")
    return kind in ("user", "group") and bool(separator and name) and text.isprintable() and len(text) <= 1_000


def _iso_moment(text: str | None, fault: str) -> datetime | None:
    """An ISO 8601 time; one without a zone is in UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise CorruptArchive(f"{fault}`last_modified` is not an ISO 8601 time.") from error
