"""Computes how much memory a record batch of an Arrow stream will take, before anything is decompressed.

Arrow allocates as much as a compressed buffer claims, and a few bytes may claim gigabytes. pyarrow does not expose the
claims, so this module reads them from the message. The layout is that of Arrow's format/Message.fbs, which is stable;
Arrow has verified the flatbuffer itself when it opened the message.
"""

import struct

import pyarrow as pa

_HEADER = 2  # numbers of fields in Message.fbs: Message.header, RecordBatch.buffers, RecordBatch.compression
_BUFFERS = 2
_COMPRESSION = 3
_LENGTH = struct.Struct("<q")
_BUFFER = struct.Struct("<qq")  # offset and length in the body
_NOT_COMPRESSED = -1


def decompressed_size(message: pa.ipc.Message) -> int:
    """Bytes of all buffers of a record batch. Raises ValueError for a message that no Arrow writer makes."""
    try:
        return _size(memoryview(message.metadata), memoryview(message.body))
    except struct.error as error:
        raise ValueError(f"a record batch that contradicts itself: {error}") from error


def _size(metadata: memoryview, body: memoryview) -> int:
    message = _offset(metadata, 0)
    batch = _offset(metadata, _field(metadata, message, _HEADER))
    buffers = _offset(metadata, _field(metadata, batch, _BUFFERS))
    is_compressed = _field(metadata, batch, _COMPRESSION) != batch
    size = 0
    for number in range(_unsigned(metadata, buffers)):
        offset, length = _BUFFER.unpack_from(metadata, buffers + 4 + number * _BUFFER.size)
        if not 0 <= offset <= offset + length <= len(body):
            raise ValueError("a buffer lies outside its record batch")
        claimed = _LENGTH.unpack_from(body, offset)[0] if is_compressed and length else _NOT_COMPRESSED
        if claimed < _NOT_COMPRESSED:
            raise ValueError("a buffer of negative length")
        size += length if claimed == _NOT_COMPRESSED else claimed
    return size


def _field(metadata: memoryview, table: int, number: int) -> int:
    """The position of a flatbuffer table's field; that of the table itself if it has no such field."""
    (back,) = struct.unpack_from("<i", metadata, table)
    known = table - back
    entry = 4 + 2 * number
    (size,) = struct.unpack_from("<H", metadata, known)
    return table + (struct.unpack_from("<H", metadata, known + entry)[0] if entry < size else 0)


def _offset(metadata: memoryview, at: int) -> int:
    return at + _unsigned(metadata, at)


def _unsigned(metadata: memoryview, at: int) -> int:
    return int(struct.unpack_from("<I", metadata, at)[0])
