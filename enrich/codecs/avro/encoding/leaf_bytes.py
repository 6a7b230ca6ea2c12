"""The bytes of single values as Avro has them, of a whole column at once. Null stays null."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.joining import joined, null_where

_SEVEN = np.uint64(7)
_INT = np.iinfo(np.int32)
NOTHING, NULL = pa.scalar(b"", pa.binary()), pa.scalar(None, pa.binary())


def numbers(values: pa.Array) -> pa.BinaryArray:
    """Whole numbers, dates and times, as zigzag varints."""
    whole = values.cast(pa.int64()).fill_null(0).to_numpy()
    zigzag = (whole.astype(np.uint64) << np.uint64(1)) ^ (whole >> 63).astype(np.uint64)
    lengths = np.ones(len(whole), np.int64)
    most = zigzag.max(initial=0)
    for power in range(1, 10):
        if most >> np.uint64(7 * power) == 0:
            break
        lengths += (zigzag >> np.uint64(7 * power)) != 0
    ends = np.cumsum(lengths)
    content = np.empty(ends[-1] if len(ends) else 0, np.uint8)
    places, left = ends - lengths, zigzag
    for index in range(int(lengths.max(initial=0))):
        there = lengths > index
        more = lengths[there] > index + 1
        content[places[there] + index] = (left[there] & np.uint64(0x7F)) | (more * np.uint64(0x80))
        left = left >> _SEVEN
    return _binary(values, ends, content)


def narrow(values: pa.Array) -> pa.BinaryArray:
    """The same for an `int`: null for what has more than 32 bits."""
    wide = values.cast(pa.int64())
    fits = pc.and_(pc.greater_equal(wide, int(_INT.min)), pc.less_equal(wide, int(_INT.max)))
    return numbers(pc.if_else(fits, wide, pa.scalar(None, pa.int64())))


def floats(values: pa.Array) -> pa.BinaryArray:
    content = values.fill_null(0).to_numpy()
    width = content.dtype.itemsize
    ends = np.arange(1, len(content) + 1) * width
    return _binary(values, ends, content.astype(content.dtype.newbyteorder("<")).view(np.uint8))


def booleans(values: pa.BooleanArray) -> pa.BinaryArray:
    content = values.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8)
    return _binary(values, np.arange(1, len(content) + 1), content)


def with_length(values: pa.Array) -> pa.BinaryArray:
    """Text and bytes."""
    return joined(numbers(pc.binary_length(values)), values.cast(pa.binary()))


def of_length(size: int) -> Any:
    """Bytes of a `fixed`: null for those of another length."""
    return lambda values: pc.if_else(pc.equal(pc.binary_length(values), size), values, NULL)


def decimals(values: pa.Decimal128Array) -> pa.BinaryArray:
    """The fewest bytes of the unscaled number, behind their length."""
    return with_length(_unscaled(values))


def fixed_decimals(values: pa.Decimal128Array, size: int) -> pa.BinaryArray:
    """So many bytes: enough for the type's precision, else the schema is none."""
    whole = _big_endian(values)
    if size <= whole.shape[1]:
        content = whole[:, whole.shape[1] - size :]
    else:
        sign = np.where(whole[:, :1] >> 7, 0xFF, 0).astype(np.uint8)
        content = np.hstack([np.repeat(sign, size - whole.shape[1], axis=1), whole])
    return _binary(values, np.arange(1, len(whole) + 1) * size, np.ascontiguousarray(content).ravel())


def _unscaled(values: pa.Decimal128Array) -> pa.BinaryArray:
    whole = _big_endian(values)
    width = whole.shape[1]
    negative = whole[:, 0] >> 7
    differs = whole != np.where(negative, 0xFF, 0).astype(np.uint8)[:, None]
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), width - 1)
    # A byte more where the first bit would say another sign.
    first = first - (whole[np.arange(len(whole)), first] >> 7 != negative)
    kept = np.arange(width) >= first[:, None]
    return _binary(values, np.cumsum(width - first), whole[kept])


def _big_endian(values: pa.Decimal128Array) -> npt.NDArray[np.uint8]:
    """16 bytes a number; what those of nulls are does not matter."""
    content = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    return content.reshape(-1, 16)[values.offset : values.offset + len(values), ::-1]


def _binary(values: pa.Array, ends: npt.NDArray[Any], content: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    """Null where the values are."""
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    made = pa.BinaryArray.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    )
    return null_where(values, made)
