"""tar.gz → entries."""

from __future__ import annotations

import math
import re
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import BinaryIO

from strata.errors import CorruptArchive, UnsafeEntry
from strata.indexing.uploads.entries import UploadEntry, about_entry, about_file, check_directory, safe_path
from strata.indexing.uploads.gunzip import Gunzip
from strata.indexing.uploads.metering import MAX_HEADER_BYTES, Meter

_BLOCK = tarfile.BLOCKSIZE


def tar_entries(file: BinaryIO, meter: Meter) -> Iterator[UploadEntry]:
    """The files of a gzipped tar, as `read_entries` gives them."""
    return _Tar(Gunzip(file, meter), meter).entries()


class _Tar:
    """The files of a tar stream; what pax and GNU headers say is applied to the member that they stand before."""

    def __init__(self, stream: Gunzip, meter: Meter) -> None:
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
        if size > MAX_HEADER_BYTES:
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
        if member.type == tarfile.GNUTYPE_SPARSE or any(key.startswith("GNU.sparse") for key in attributes):
            raise UnsafeEntry(about=about_entry(name, "a sparse file; only plain files are accepted"))
        if member.type == tarfile.DIRTYPE:
            check_directory(name)
            self._meter.count_entry()
            self._stream.skip(_padded(size))
            return None
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE):
            raise UnsafeEntry(about=about_entry(name, "which is a link or a device; only files are accepted"))
        path, skip_reason = safe_path(name)
        if skip_reason is None and size > self._meter.caps.max_file_bytes:
            skip_reason = self._meter.too_large()
        content: bytes | None = None
        if skip_reason is None:
            content = self._stream.read(size)
            if len(content) < size:
                ends = about_file(path, f"The archive ends in the middle of {path!r}.")
                raise CorruptArchive("The archive ends in the middle of a file.", about=ends)
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


def _moment(seconds: object) -> datetime | None:
    """A time stamp in seconds; None for what is no sensible one (zero stands for "not known")."""
    try:
        value = float(str(seconds))
        return datetime.fromtimestamp(math.floor(value), UTC) if 0 < value < 253_402_300_800 else None
    except (ValueError, OverflowError, OSError):
        return None
