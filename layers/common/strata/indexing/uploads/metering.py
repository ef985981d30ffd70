"""What one upload may hold, counted while it is read."""

from __future__ import annotations

from typing import Protocol

from strata.errors import UploadTooLarge

READ_BYTES = 64 * 1024
MAX_HEADER_BYTES = 1024 * 1024
"""A pax header or a long name above this is an attack: it would be held in memory."""
_RATIO_COUNTS_FROM_BYTES = 16 * 1024 * 1024
"""Small archives may shrink by any ratio: a few hundred bytes of zip hold no bomb worth the name."""


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


class Meter:
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
