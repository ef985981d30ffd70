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
_LENGTH = struct.Struct(">i").pack
_INT4 = struct.Struct(">ii").pack
_INT8 = struct.Struct(">iq").pack
_HALFVEC_HEAD = struct.Struct(">ihh").pack
_ARRAY_HEAD = struct.Struct(">iiiiii").pack
_EMPTY_ARRAY = struct.pack(">iiii", 12, 0, 0, INT4_OID)
_LENGTHS = tuple(map(_LENGTH, range(4_096)))

NULL = _LENGTH(-1)
"""A field is its length and its type's binary form; this one has no value."""


def row(fields: Sequence[bytes]) -> bytes:
    return _INT2(len(fields)) + b"".join(fields)


def int4(value: int) -> bytes:
    return _INT4(4, value)


def int8(value: int) -> bytes:
    return _INT8(8, value)


def boolean(value: bool) -> bytes:
    return b"\x00\x00\x00\x01\x01" if value else b"\x00\x00\x00\x01\x00"


def bytea(value: bytes) -> bytes:
    length = len(value)
    return (_LENGTHS[length] if length < 4_096 else _LENGTH(length)) + value


def text(value: str) -> bytes:
    return bytea(value.encode())


def jsonb(value: str) -> bytes:
    return bytea(b"\x01" + value.encode())


def halfvec(vector: Vector) -> bytes:
    return _HALFVEC_HEAD(4 + 2 * len(vector), len(vector), 0) + vector.astype(">f2").tobytes()


def vector(halfvec: bytes) -> Vector:
    """The other way round, without the field's length."""
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
            end = start + 8 * length
            yield _ARRAY_HEAD(20 + 8 * length, 1, 0, INT4_OID, length, 1) + elements[start:end]
            start = end
        else:
            yield _EMPTY_ARRAY
