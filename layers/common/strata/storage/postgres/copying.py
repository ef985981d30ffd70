"""Rows in the binary format of COPY, packed by hand: numpy arrays go in without a Python object for each number."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from strata.model.corpus import Vector

HEADER = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
TRAILER = struct.pack(">h", -1)
INT4_OID = 23


_INT2 = struct.Struct(">h").pack
_INT4 = struct.Struct(">i").pack
_INT8 = struct.Struct(">q").pack
_NULL = _INT4(-1)
_ARRAY_HEAD = struct.Struct(">iiiii").pack
_EMPTY_ARRAY = struct.pack(">iii", 0, 0, INT4_OID)
_LENGTHS = tuple(map(_INT4, range(4_096)))


def row(fields: Sequence[bytes | None]) -> bytes:
    """One row of fields in their types' binary form; None is NULL."""
    parts = [_INT2(len(fields))]
    for field in fields:
        if field is None:
            parts.append(_NULL)
        else:
            length = len(field)
            parts += (_LENGTHS[length] if length < 4_096 else _INT4(length), field)
    return b"".join(parts)


def int4(value: int) -> bytes:
    return _INT4(value)


def int8(value: int) -> bytes:
    return _INT8(value)


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


def int4_arrays(values: NDArray[np.int64], lengths: Sequence[int]) -> Iterator[bytes]:
    """Arrays of these lengths, whose elements stand one after the other in `values`."""
    packed = np.empty((len(values), 2), dtype=">i4")
    packed[:, 0] = 4
    packed[:, 1] = values
    elements = packed.tobytes()
    start = 0
    for length in lengths:
        if length:
            yield _ARRAY_HEAD(1, 0, INT4_OID, length, 1) + elements[start : start + 8 * length]
        else:
            yield _EMPTY_ARRAY
        start += 8 * length
