"""zip → entries."""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import BinaryIO

from strata.errors import CorruptArchive, UnsafeEntry, UploadTooLarge
from strata.indexing.uploads.entries import UploadEntry, about_entry, about_file, check_directory, safe_path
from strata.indexing.uploads.metering import MAX_HEADER_BYTES, READ_BYTES, Caps, Meter

_DIRECTORY_BYTES_PER_ENTRY = 256
_ENCRYPTED = 0x1


class _BoundedReads:
    """A file that refuses one large read: `zipfile` reads a directory of any size into memory."""

    def __init__(self, file: BinaryIO, caps: Caps) -> None:
        self._file = file
        self._most = max(MAX_HEADER_BYTES, caps.max_entries * _DIRECTORY_BYTES_PER_ENTRY)
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
    RuntimeError,
    ValueError,
    OverflowError,
    UnicodeError,
)


def zip_entries(file: BinaryIO, meter: Meter) -> Iterator[UploadEntry]:
    """The files of a zip, as `read_entries` gives them."""
    name: str | None = None
    try:
        with zipfile.ZipFile(_BoundedReads(file, meter.caps)) as archive:
            for info in archive.infolist():
                mode = info.external_attr >> 16
                kind = stat.S_IFMT(mode)
                name = _zip_name(info)
                if name.endswith("/") or kind == stat.S_IFDIR:
                    check_directory(name)
                    meter.count_entry()
                    continue
                if kind not in (0, stat.S_IFREG):
                    raise UnsafeEntry(about=about_entry(name, "a link or a device; only files are accepted"))
                path, skip_reason = safe_path(name)
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    packed = "is compressed in a way that is not accepted (stored and deflated are)."
                    raise CorruptArchive(f"A file {packed}", about=about_file(name, f"{path!r} {packed}"))
                if info.flag_bits & _ENCRYPTED:
                    locked = "is encrypted; pack it without a password."
                    raise CorruptArchive(f"A file {locked}", about=about_file(name, f"{path!r} {locked}"))
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
        said = f"The archive is not a sound zip file: {str(error)[:200]}"
        if name is None:
            raise CorruptArchive(said) from error
        raise CorruptArchive(
            "The archive is not a sound zip file: one of its files can't be read.", about=about_file(name, said)
        ) from error


def _zip_content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, meter: Meter) -> tuple[bytes | None, int]:
    """The content, or None when it is over the cap, and the size as far as it was read."""
    if info.file_size > meter.caps.max_file_bytes:
        return None, info.file_size
    pieces: list[bytes] = []
    size = 0
    with archive.open(info) as member:
        while piece := member.read(READ_BYTES):
            meter.count_bytes(len(piece))
            size += len(piece)
            if size > meter.caps.max_file_bytes:
                return None, size
            pieces.append(piece)
    if size != info.file_size:
        sized = about_entry(_zip_name(info), "whose size is not the one in the archive's list")
        raise CorruptArchive("The archive's list gives a file another size than it has.", about=sized)
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
