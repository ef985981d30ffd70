"""Rows in the binary format of COPY, packed by hand: numpy arrays go in without a Python object for each number."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from strata.model.corpus import Vector

HEADER = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
TRAILER = struct.pack(">h", -1)
INT4_OID = 23


def row(fields: Sequence[bytes]) -> bytes:
    """One row of fields in their types' binary form; none of them NULL."""
    parts = [struct.pack(">h", len(fields))]
    for field in fields:
        parts.append(struct.pack(">i", len(field)))
        parts.append(field)
    return b"".join(parts)


def int4(value: int) -> bytes:
    return struct.pack(">i", value)


def int8(value: int) -> bytes:
    return struct.pack(">q", value)


def boolean(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def text(value: str) -> bytes:
    return value.encode()


def jsonb(value: str) -> bytes:
    return b"\x01" + value.encode()


def halfvec(vector: Vector) -> bytes:
    return struct.pack(">hh", len(vector), 0) + vector.astype(">f2").tobytes()


def vector(halfvec: bytes) -> Vector:
    """The other way round."""
    return np.frombuffer(halfvec, dtype=">f2", offset=4).astype(np.float32)


def int4_array(values: NDArray[np.int64]) -> bytes:
    if not len(values):
        return struct.pack(">iii", 0, 0, INT4_OID)
    packed = np.empty((len(values), 2), dtype=">i4")
    packed[:, 0] = 4
    packed[:, 1] = values
    return struct.pack(">iiiii", 1, 0, INT4_OID, len(values), 1) + packed.tobytes()
