"""Rows in the binary format of COPY, packed by hand: numpy arrays go in without a Python object for each number."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from strata.model.corpus import Vector

HEADER = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
TRAILER = struct.pack(">h", -1)
INT8_OID = 20

_INT2 = struct.Struct(">h").pack
_LENGTH = struct.Struct(">i").pack
_INT4 = struct.Struct(">ii").pack
_INT8 = struct.Struct(">iq").pack
_FLOAT4 = struct.Struct(">if").pack
_HALFVEC_HEAD = struct.Struct(">ihh").pack
_ARRAY_HEAD = struct.Struct(">iiiiii").pack
_SPARSEVEC_HEAD = struct.Struct(">iiii").pack
_LENGTHS = tuple(map(_LENGTH, range(4_096)))

NULL = _LENGTH(-1)
"""A field is its length and its type's binary form; this one has no value."""


def row(fields: Sequence[bytes]) -> bytes:
    return _INT2(len(fields)) + b"".join(fields)


def int4(value: int) -> bytes:
    return _INT4(4, value)


def int8(value: int) -> bytes:
    return _INT8(8, value)


def float4(value: float) -> bytes:
    return _FLOAT4(4, value)


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


def int8_arrays(values: NDArray[np.int64], lengths: Sequence[int]) -> Iterator[bytes]:
    """Arrays of these lengths, whose elements stand one after the other in `values`."""
    packed = np.empty(len(values), dtype=[("length", ">i4"), ("value", ">i8")])
    packed["length"] = 8
    packed["value"] = values
    elements = packed.tobytes()
    empty = _ARRAY_HEAD(12, 0, 0, INT8_OID, 0, 0)[:16]
    start = 0
    for length in lengths:
        if length:
            end = start + 12 * length
            yield _ARRAY_HEAD(end - start + 20, 1, 0, INT8_OID, length, 1) + elements[start:end]
            start = end
        else:
            yield empty


def byte_pairs(first: NDArray[np.int64], second: NDArray[np.int64], lengths: Sequence[int]) -> Iterator[bytes]:
    """Bytes that hold so many pairs of int4; the pairs' halves stand one after the other in `first` and `second`."""
    packed = np.stack((first, second), axis=1).astype(">i4").tobytes()
    start = 0
    for length in lengths:
        end = start + 8 * length
        yield bytea(packed[start:end])
        start = end


def pairs(packed: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The other way round, without the fields' lengths: the halves of all pairs, and how many each has."""
    flat = np.frombuffer(b"".join(packed), dtype=">i4").astype(np.int64)
    return flat[::2], flat[1::2], np.array([len(each) // 8 for each in packed], dtype=np.int64)


def sparsevecs(
    places: NDArray[np.int64], values: NDArray[np.float32], dimension: int, lengths: Sequence[int]
) -> Iterator[bytes]:
    """Vectors with so many elements; their places, from 1 and ascending, and values stand one after the other."""
    places_bytes, values_bytes = (places - 1).astype(">i4").tobytes(), values.astype(">f4").tobytes()
    start = 0
    for length in lengths:
        end = start + 4 * length
        yield (
            _SPARSEVEC_HEAD(12 + 8 * length, dimension, length, 0) + places_bytes[start:end] + values_bytes[start:end]
        )
        start = end
