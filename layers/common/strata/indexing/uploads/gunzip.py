"""A gzip stream, checked while it is read."""

from __future__ import annotations

import zlib
from typing import BinaryIO

from strata.errors import CorruptArchive
from strata.indexing.uploads.metering import READ_BYTES, Meter


class Gunzip:
    """The bytes inside a gzip file of one or more members, forward only, checked to its last CRC."""

    def __init__(self, file: BinaryIO, meter: Meter) -> None:
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
            read = len(self.read(min(size, READ_BYTES)))
            if not read:
                raise CorruptArchive("The archive ends in the middle of a file.")
            size -= read

    def drain(self) -> None:
        while self._some(READ_BYTES):
            pass

    def _some(self, size: int) -> bytes:
        while True:
            if self._inflate.eof:
                rest = (self._inflate.unused_data or self._packed).lstrip(b"\0")
                self._packed = rest or self._file.read(READ_BYTES).lstrip(b"\0")
                if not self._packed:
                    if self._file.read(1):
                        self._file.seek(-1, 1)
                        continue
                    return b""
                self._inflate = zlib.decompressobj(wbits=31)
            elif not self._packed:
                self._packed = self._file.read(READ_BYTES)
                if not self._packed:
                    raise CorruptArchive(
                        "The archive is cut short: its gzip stream has no end."
                        if self._started
                        else "The archive is empty."
                    )
            try:
                piece = self._inflate.decompress(self._packed, min(size, READ_BYTES))
            except zlib.error as error:
                raise CorruptArchive("The archive is not a sound gzip file.") from error
            self._started = True
            self._packed = self._inflate.unconsumed_tail
            if piece:
                self._meter.count_bytes(len(piece))
                return piece
