"""A large upload goes through a worker in constant memory."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import resource
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from strata.indexing.uploads.reading import read_entries
from strata.indexing.wanted import read_wanted
from strata.storage.s3.objects import S3ObjectStore
from tests.support.uploads import Caps

MEGABYTE = 1024 * 1024
STREAM_BYTES = 300 * MEGABYTE
MOST_GROWTH_BYTES = 60 * MEGABYTE


class Noise:
    """`size` bytes of text that hardly shrinks, made while it is read."""

    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int = -1) -> bytes:
        size = self._left if size < 0 else min(size, self._left)
        self._left -= size
        return os.urandom((size + 1) // 2).hex().encode()[:size]


def write_archive(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as packed, tarfile.open(fileobj=packed, mode="w|") as archive:
        for number in range(STREAM_BYTES // MEGABYTE):
            entry = tarfile.TarInfo(f"docs/{number:04d}.md")
            entry.size = MEGABYTE
            archive.addfile(entry, Noise(MEGABYTE))  # type: ignore[arg-type]


def read_through(client_options: dict[str, Any], bucket: str, key: str, version: str, answer: Any) -> None:
    """Download and judge the whole upload as a worker does; the growth of this process's memory."""
    import boto3

    store = S3ObjectStore(client=boto3.client("s3", **client_options), bucket=bucket)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with store.download(key, version=version, max_bytes=512 * MEGABYTE) as file:
        caps = Caps(max_total_bytes=2 * STREAM_BYTES, max_archive_bytes=512 * MEGABYTE)
        wanted = read_wanted(read_entries(file, "tar.gz", caps), max_file_bytes=2 * MEGABYTE, obeys_ignore_files=True)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    answer.send((len(wanted.files), grown))


def test_an_upload_of_300_megabytes_is_read_in_constant_memory(s3: Any, bucket: str, aws_endpoint: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.tar.gz"
        write_archive(path)
        assert path.stat().st_size > STREAM_BYTES / 3
        key = "uploads/docs/large.tar.gz"
        s3.upload_file(str(path), bucket, key)
    version = s3.head_object(Bucket=bucket, Key=key)["VersionId"]
    options = {"endpoint_url": aws_endpoint, "region_name": "eu-west-1",
               "aws_access_key_id": "test", "aws_secret_access_key": "test"}  # fmt: skip
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    reader = context.Process(target=read_through, args=(options, bucket, key, version, sender))
    reader.start()
    assert receiver.poll(240)
    files, grown = receiver.recv()
    reader.join()
    assert files == STREAM_BYTES // MEGABYTE
    assert grown < MOST_GROWTH_BYTES
