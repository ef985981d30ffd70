"""Uploads as the tests pack and read them."""

from __future__ import annotations

import io

import pytest

from strata.errors import AboutFile, UnsafeEntry, UploadRejected
from strata.indexing.uploads.entries import UploadEntry
from strata.indexing.uploads.reading import read_entries
from tests.support.uploads import Caps, tar_gz, zipped

FORMATS = ("tar.gz", "zip")


def packed(files: dict[str, bytes | str], upload_format: str) -> bytes:
    return tar_gz(files) if upload_format == "tar.gz" else zipped(files)


def entries_of(body: bytes, upload_format: str = "tar.gz", **caps: int) -> list[UploadEntry]:
    return list(read_entries(io.BytesIO(body), upload_format, Caps(**caps)))


def refused(body: bytes, upload_format: str = "tar.gz", fault: type[UploadRejected] = UnsafeEntry) -> AboutFile:
    """What is said about the file at fault; what everybody is told names no file."""
    with pytest.raises(fault) as refusal:
        entries_of(body, upload_format)
    about = refusal.value.about
    assert about is not None
    assert about.path not in str(refusal.value)
    return about


def contents_of(body: bytes, upload_format: str = "tar.gz", **caps: int) -> dict[str, bytes | None]:
    return {entry.path: entry.content for entry in entries_of(body, upload_format, **caps)}
