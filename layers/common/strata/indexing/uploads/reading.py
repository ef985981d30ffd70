"""An upload of any of its formats → entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from strata.errors import CorruptArchive
from strata.indexing.uploads.entries import UploadEntry
from strata.indexing.uploads.jsonl import jsonl_entries
from strata.indexing.uploads.metering import Caps, Meter
from strata.indexing.uploads.tar import tar_entries
from strata.indexing.uploads.zip import zip_entries


def read_entries(file: BinaryIO, upload_format: str, caps: Caps) -> Iterator[UploadEntry]:
    """The files of an upload in its own order; `file` is seekable and is read from its beginning.

    Raises `CorruptArchive`, `UnsafeEntry` or `UploadTooLarge` when the entry at fault is reached.
    """
    readers = {"tar.gz": tar_entries, "zip": zip_entries, "jsonl": jsonl_entries}
    if upload_format not in readers:
        raise CorruptArchive(f"There is no upload format {upload_format[:20]!r}; known are {', '.join(readers)}.")
    packed_bytes = file.seek(0, 2)
    file.seek(0)
    meter = Meter(caps, packed_bytes)
    for entry in readers[upload_format](file, meter):
        meter.count_entry()
        yield entry
