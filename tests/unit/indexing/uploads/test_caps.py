"""What one upload may hold is counted while it is read, in constant memory."""

from __future__ import annotations

import gzip
import os
import random
import struct
import subprocess
import sys
import tarfile
import zlib

import pytest

from strata.errors import CorruptArchive, UploadRejected, UploadTooLarge
from tests.support.packed_uploads import FORMATS, entries_of, packed
from tests.support.uploads import json_lines, member, tar_bytes, tar_gz, zipped


@pytest.mark.parametrize("upload_format", FORMATS)
def test_a_file_over_the_cap_is_read_past(upload_format: str) -> None:
    body = packed({"big.md": os.urandom(2_000), "small.md": b"x"}, upload_format)
    big, small = entries_of(body, upload_format, max_file_bytes=1_000)
    assert (big.content, big.skip_reason) == (None, "It is larger than 1,000 bytes.")
    assert (small.content, small.skip_reason) == (b"x", None)


def test_a_large_file_in_json_lines_is_skipped_and_a_larger_line_refused() -> None:
    line = {"path": "big.md", "content": "x" * 2_000}
    (entry,) = entries_of(json_lines(line), "jsonl", max_file_bytes=1_000)
    assert (entry.content, entry.skip_reason) == (None, "It is larger than 1,000 bytes.")
    with pytest.raises(UploadTooLarge, match="Line 2"):
        entries_of(
            json_lines({"path": "a", "content": ""}, line | {"content": "x" * 2_000_000}), "jsonl", max_file_bytes=1_000
        )


@pytest.mark.parametrize("upload_format", FORMATS)
def test_too_many_entries_are_refused(upload_format: str) -> None:
    files: dict[str, bytes | str] = {f"{number}.md": "x" for number in range(11)}
    assert len(entries_of(packed(files, upload_format), upload_format, max_entries=11)) == 11
    with pytest.raises(UploadTooLarge, match="10 entries"):
        entries_of(packed(files, upload_format), upload_format, max_entries=10)


def test_directories_count_as_entries() -> None:
    tar = tar_bytes([(member(f"d{number}", type=tarfile.DIRTYPE), b"") for number in range(11)])
    with pytest.raises(UploadTooLarge):
        entries_of(gzip.compress(tar), max_entries=10)


@pytest.mark.parametrize("upload_format", FORMATS)
def test_the_total_is_counted_while_it_is_read(upload_format: str) -> None:
    files: dict[str, bytes | str] = {f"{number}.md": os.urandom(10_000) for number in range(20)}
    with pytest.raises(UploadTooLarge, match="unpacks to more than 100,000 bytes"):
        entries_of(packed(files, upload_format), upload_format, max_total_bytes=100_000)


@pytest.mark.parametrize("upload_format", FORMATS)
def test_a_bomb_is_refused_by_its_ratio(upload_format: str) -> None:
    files: dict[str, bytes | str] = {f"{number}.md": b"\0" * 2_000_000 for number in range(20)}
    with pytest.raises(UploadTooLarge, match="200 times"):
        entries_of(packed(files, upload_format), upload_format)


def test_a_bomb_behind_the_end_of_the_tar_is_refused() -> None:
    with pytest.raises(UploadTooLarge):
        entries_of(gzip.compress(tar_bytes([(member("a.md"), b"x")]) + b"\0" * 40_000_000))


def test_a_file_over_the_cap_counts_in_a_bomb() -> None:
    with pytest.raises(UploadTooLarge):
        entries_of(tar_gz({"a.md": b"\0" * 40_000_000}), max_file_bytes=1_000)


def test_a_zip_header_that_lies_about_the_size_gains_nothing() -> None:
    body = bytearray(zipped({"a.md": b"\0" * 30_000_000}))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", body, body.index(signature) + offset, 10)
    with pytest.raises(UploadRejected):
        entries_of(bytes(body), "zip")


def test_a_pax_header_of_a_gigabyte_is_not_read_into_memory() -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 30
    with pytest.raises(CorruptArchive, match="megabyte"):
        entries_of(gzip.compress(header.tobuf(tarfile.USTAR_FORMAT) + b"\0" * 4_096))


def test_a_long_list_of_zip_entries_is_not_read_into_memory() -> None:
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 40_000_000, 0, 0)
    with pytest.raises(UploadTooLarge):
        entries_of(b"\0" * 40_000_000 + end, "zip", max_entries=1_000)


@pytest.mark.slow
@pytest.mark.parametrize("upload_format", FORMATS)
def test_memory_does_not_grow_with_the_upload(upload_format: str) -> None:
    """200 MB of files of 1 MB each, read in a process that may hold little more than one of them."""
    script = f"""
import io, resource, sys
from strata.indexing.uploads.reading import read_entries
from tests.support.uploads import Caps
body = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
entries = read_entries(io.BytesIO(body), {upload_format!r}, Caps(max_ratio=10_000))
count = sum(entry.content is not None for entry in entries)
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    text = random.Random(1).randbytes(2_000) * 500
    body = packed({f"{number}.md": text for number in range(200)}, upload_format)
    output = subprocess.run(
        [sys.executable, "-c", script], input=body, capture_output=True, check=True, cwd=os.getcwd()
    )
    count, grown_kb = map(int, output.stdout.split())
    assert count == 200
    assert grown_kb < 40_000


def test_a_file_that_grows_by_inflating_is_not_held_twice() -> None:
    """A deflate stream that ends early inside a gzip is a damaged archive, not a short file."""
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    body = stream.compress(tar_bytes([(member("a.md"), b"x" * 10_000)])) + stream.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(CorruptArchive, match="cut short"):
        entries_of(body)
