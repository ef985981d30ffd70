"""A damaged archive is refused as one, whatever the damage."""

from __future__ import annotations

import gzip
import os
import struct
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import CorruptArchive, UploadRejected
from strata.indexing.uploads.reading import read_entries
from tests.support.packed_uploads import FORMATS, entries_of, packed, refused
from tests.support.uploads import Caps, member, tar_bytes, tar_gz, zipped


@pytest.mark.parametrize(
    ("body", "upload_format"),
    [
        pytest.param(b"", "tar.gz", id="no bytes"),
        pytest.param(b"", "zip", id="no bytes, zip"),
        pytest.param(b"", "jsonl", id="no bytes, JSON Lines"),
        pytest.param(b"not an archive", "tar.gz", id="text"),
        pytest.param(b"not an archive", "zip", id="text, zip"),
        pytest.param(tar_bytes([(member("a.md"), b"x")]), "tar.gz", id="a tar that is not gzip"),
        pytest.param(gzip.compress(b""), "tar.gz", id="an empty gzip"),
        pytest.param(gzip.compress(b"text " * 1_000), "tar.gz", id="a gzip that is no tar"),
        pytest.param(zipped({"a.md": "x"}), "tar.gz", id="a zip as tar.gz"),
        pytest.param(tar_gz({"a.md": "x"}), "zip", id="a tar.gz as zip"),
        pytest.param(tar_gz({"a.md": "x"}) + b"garbage", "tar.gz", id="garbage behind the gzip"),
        pytest.param(b"PK\x05\x06" + b"\0" * 10, "zip", id="half an end of zip"),
        pytest.param(zipped({"a.md": "x"}, compression=zipfile.ZIP_LZMA), "zip", id="lzma"),
    ],
)
def test_what_is_no_archive_is_corrupt(body: bytes, upload_format: str) -> None:
    with pytest.raises(CorruptArchive):
        entries_of(body, upload_format)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(CorruptArchive, match="rar"):
        entries_of(b"", "rar")


@pytest.mark.parametrize("upload_format", FORMATS)
def test_an_archive_that_is_cut_short_is_corrupt_at_every_length(upload_format: str) -> None:
    """Even where every file came whole: a snapshot that lost its end would delete files."""
    body = packed({"a.md": os.urandom(700), "b/c.md": os.urandom(700)}, upload_format)
    for length in range(0, len(body) - 1, 7):
        with pytest.raises(CorruptArchive):
            entries_of(body[:length], upload_format)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param(
            {b"PK\x03\x04": 6, b"PK\x01\x02": 8}, "'notes.md' is encrypted; pack it without a password.", id="encrypted"
        ),
        pytest.param({b"PK\x01\x02": 16}, "CRC", id="wrong checksum"),
        pytest.param({b"PK\x01\x02": 46}, "differ", id="two names"),
        pytest.param({b"PK\x01\x02": 24}, "", id="wrong size"),
        pytest.param({b"PK\x03\x04": 0}, "magic", id="no file where the list says"),
        pytest.param({b"PK\x03\x04": 8, b"PK\x01\x02": 10}, "compressed", id="unknown compression"),
    ],
)
def test_a_zip_with_a_fault_in_one_file_is_corrupt_and_names_it_only_to_its_readers(
    fault: dict[bytes, int], said: str
) -> None:
    body = bytearray(zipped({"notes.md": "some text, twice: some text"}))
    for signature, offset in fault.items():
        body[body.index(signature) + offset] ^= 1
    about = refused(bytes(body), "zip", CorruptArchive)
    assert said in about.reason


def test_a_tar_that_ends_in_a_file_names_it_only_to_its_readers() -> None:
    tar = tar_bytes([(member("notes.md"), b"x" * 2_000)])[: 512 + 100]
    assert refused(gzip.compress(tar), fault=CorruptArchive).path == "notes.md"


def test_a_zip_list_that_points_before_the_file_is_corrupt(tmp_path: Any) -> None:
    """On a real file, where a negative seek is an OSError: it must not look like a fault worth a retry."""
    body = bytearray(zipped({"a.md": "x"}))
    struct.pack_into("<I", body, body.rindex(b"PK\x05\x06") + 12, 0x7FFFFFF)
    path = tmp_path / "a.zip"
    path.write_bytes(body)
    with path.open("rb") as file, pytest.raises(UploadRejected):
        list(read_entries(file, "zip", Caps(max_entries=10_000_000)))


@given(st.data())
def test_a_damaged_archive_never_fails_otherwise(data: st.DataObject) -> None:
    """Bit flips, cuts and splices: entries, or an `UploadRejected`, never another error."""
    upload_format = data.draw(st.sampled_from(FORMATS))
    files: dict[str, bytes | str] = {"a.md": "# A\n" * 50, "д/b.py": b"x = 1\n" * 40, "n" * 120 + ".md": "x"}
    body = bytearray(packed(files, upload_format))
    if upload_format == "tar.gz" and data.draw(st.booleans()):
        body = bytearray(gzip.decompress(body))
        _damage(body, data)
        body = bytearray(gzip.compress(bytes(body)))
    else:
        _damage(body, data)
    try:
        for entry in entries_of(bytes(body), upload_format):
            entry.path.encode("utf-8")
    except UploadRejected as error:
        error.message.encode("utf-8")


def _damage(body: bytearray, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
        if not body:
            body += b"\0"
