"""Columns of any type as plain streams of bytes, and back: written one batch at a time, read without a copy.

A segment stores 64-bit offsets, whatever the table's types are, so that it may grow beyond 2 GiB. Values taken from it
have the table's own types again (`narrow`).
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores.segments.loops.compiled import Integers


class Stream(Protocol):
    def write(self, data: "memoryview | bytes", /) -> object: ...


def wide(kind: pa.DataType) -> pa.DataType:
    """The type with 64-bit offsets in which a segment stores a column."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.large_binary()
    if pa.types.is_map(kind):  # Arrow has no large map
        entry = pa.struct(
            [kind.key_field.with_type(wide(kind.key_type)), kind.item_field.with_type(wide(kind.item_type))]
        )
        return pa.large_list(pa.field("entries", entry, nullable=False))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(wide(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(wide(field.type)) for field in kind])
    return kind


def narrow(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Converts an array from the wide form of a type to the type itself."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        children = [narrow(array.field(index), field.type) for index, field in enumerate(kind)]
        return pa.StructArray.from_buffers(kind, len(array), [_validity(array)], children=children)
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        offsets = array.offsets.to_numpy()
        values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        entries = pa.struct([kind.key_field, kind.item_field]) if pa.types.is_map(kind) else kind.value_type
        buffers = [_validity(array), pa.py_buffer((offsets - offsets[0]).astype(np.int32))]
        return pa.Array.from_buffers(kind, len(array), buffers, children=[narrow(values, entries)])
    return array.cast(kind)


def _validity(array: pa.Array) -> pa.Buffer | None:
    if array.null_count == 0:
        return None
    return pa.py_buffer(np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))


class _Bits:
    """Writes flags as a bitmap: whole bytes at once, the rest waits for the next flags."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._rest = np.empty(0, bool)

    def write(self, flags: npt.NDArray[np.bool_]) -> None:
        together = np.concatenate([self._rest, flags])
        whole = len(together) // 8 * 8
        self._stream.write(np.packbits(together[:whole], bitorder="little").data)
        self._rest = together[whole:]

    def finish(self) -> None:
        self._stream.write(np.packbits(self._rest, bitorder="little").data)


class ArrowWriter:
    """Writes arrays of one column, one after the other. Nested types have a further writer for each child."""

    def __init__(self, kind: pa.DataType, new_stream: Callable[[], Stream]) -> None:
        """`kind` is a wide type. Streams are created in the order in which `column_of` takes their bytes."""
        self._kind = kind
        self._validity = _Bits(new_stream())
        self._end = 0
        """For text and lists: the number of bytes or values so far."""
        own = _own_buffers(kind)
        self._first = new_stream() if own else None
        if _has_offsets(kind) and self._first is not None:
            self._first.write(bytes(8))
        self._text = new_stream() if own > 1 else None
        self._flags = _Bits(self._first) if self._first is not None and pa.types.is_boolean(kind) else None
        self._children = [ArrowWriter(child, new_stream) for child in _children(kind)]

    def write(self, array: pa.Array) -> None:
        """Appends an array of the type or of its narrow form."""
        self._validity.write(array.is_valid().to_numpy(zero_copy_only=False))
        if self._flags is not None:
            self._flags.write(array.fill_null(False).to_numpy(zero_copy_only=False))
        elif self._text is not None:
            self._write_text(array, self._text)
        elif pa.types.is_large_list(self._kind):
            offsets = array.offsets.to_numpy()
            self._write_ends(offsets)
            self._children[0].write(_values_of(array).slice(offsets[0], offsets[-1] - offsets[0]))
        elif self._children:
            for index, child in enumerate(self._children):
                child.write(array.field(index))
        elif self._first is not None and len(array):
            width = self._kind.bit_width // 8
            self._first.write(
                memoryview(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width]
            )

    def finish(self) -> None:
        self._validity.finish()
        if self._flags is not None:
            self._flags.finish()
        for child in self._children:
            child.finish()

    def _write_text(self, array: pa.Array, text: Stream) -> None:
        if not len(array):
            return
        _, ends, data = array.buffers()
        is_small = pa.types.is_string(array.type) or pa.types.is_binary(array.type)
        offsets = np.frombuffer(ends, np.int32 if is_small else np.int64)[array.offset : array.offset + len(array) + 1]
        self._write_ends(offsets)
        text.write(memoryview(data or b"")[offsets[0] : offsets[-1]])

    def _write_ends(self, offsets: npt.NDArray[Any]) -> None:
        assert self._first is not None  # noqa: S101 - types with offsets have a buffer for them
        self._first.write((offsets[1:].astype(np.int64) + (self._end - int(offsets[0]))).data)
        self._end += int(offsets[-1] - offsets[0])


def column_of(kind: pa.DataType, length: int, buffers: Iterator[pa.Buffer]) -> pa.Array:
    """The array of a wide type over the bytes in these buffers; nothing is copied.

    Raises IndexError if a value is beyond the end of its buffer: Arrow itself does not check this.
    """
    own = [next(buffers) for _ in range(1 + _own_buffers(kind))]
    inner = length
    if _has_offsets(kind):
        inner = _ordered_end(np.frombuffer(own[1], np.int64), length)
        if not pa.types.is_large_list(kind) and inner > own[2].size:
            raise IndexError("a text ends beyond the end of all")
    children = [column_of(child, inner, buffers) for child in _children(kind)]
    array = pa.Array.from_buffers(kind, length, own, children=children)
    try:
        array.validate()  # checks only the sizes of buffers: it reads no value
    except pa.ArrowInvalid as error:
        raise IndexError(str(error)) from error
    return array


def _ordered_end(offsets: Integers, length: int) -> int:
    """The last offset, after a check that the offsets are in order."""
    if len(offsets) != length + 1 or offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():
        raise IndexError("the places of values are not in order")
    return int(offsets[length])


def _has_offsets(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_list(kind) or _own_buffers(kind) == 2)


def _own_buffers(kind: pa.DataType) -> int:
    """How many buffers one level of a wide type has, apart from its validity."""
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return 2
    return 0 if pa.types.is_struct(kind) or pa.types.is_null(kind) else 1


def _children(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_struct(kind):
        return [field.type for field in kind]
    return [kind.value_type] if pa.types.is_large_list(kind) else []


def _values_of(array: pa.Array) -> pa.Array:
    if pa.types.is_map(array.type):
        kind = array.type
        return pa.StructArray.from_arrays([array.keys, array.items], fields=[kind.key_field, kind.item_field])
    return array.values
