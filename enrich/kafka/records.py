"""What a record has, whatever the client makes of it: place, key, value, headers. And many of them as row versions, the
columns in which an engine takes the records of a table."""

import ctypes
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from stores.table import ROW_VERSIONS

Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""

NO_NAME = "\ufffd"
"""Of a header whose name is not UTF-8."""

# By C: a call of Python's own leaves the error that is set with the result (see `_with_names`) to whatever comes next.
_headers: Callable[[Message], Any] = methodcaller("headers")
_item = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_ssize_t)(("PyTuple_GetItem", ctypes.pythonapi))


def own_place(message: Message) -> Place:
    """Where it was read, whatever its headers say of places before."""
    return message.topic() or "", message.partition() or 0, message.offset() or 0


def key_of(message: Message) -> bytes | None:
    return _bytes(message.key())


def value_of(message: Message) -> bytes | None:
    return _bytes(message.value())


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """The headers in order; a name may occur twice. Anybody may write into a topic: a name may also be `NO_NAME`."""
    try:
        headers = _headers(message)  # a list of pairs, whatever the client's types say
    except SystemError:
        headers = _with_names(message)
    return headers or []


def size_of(message: Message) -> int:
    """Bytes of its key, value and headers."""
    size = len(message.key() or b"") + len(message.value() or b"")
    for name, content in headers_of(message):
        size += len(name) + len(content or b"")
    return size


def _with_names(message: Message) -> list[tuple[str, bytes | None]]:
    """If the name of a header is not UTF-8 the client fails once, and from then on gives a pair that lacks its first
    part: whoever looks at it ends the process (confluent-kafka 2.16)."""
    pairs: Any = message.headers()
    named = [(pair[0] if _item(pair, 0) else NO_NAME, pair[1]) for pair in pairs]
    message.set_headers(named)
    return named


def row_versions_of(messages: Sequence[Message]) -> pa.RecordBatch:
    """The messages as a batch of `ROW_VERSIONS`.

    A broker refuses null keys in a compacted topic: they can only be from before it was compacted. They are included,
    to be quarantined.
    """
    # `map` over a method is a third faster than a comprehension.
    columns = [
        list(map(Message.key, messages)),
        list(map(Message.partition, messages)),
        list(map(Message.offset, messages)),
        [time for _, time in map(Message.timestamp, messages)],
        list(map(Message.value, messages)),
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, ROW_VERSIONS, strict=True)],
        schema=ROW_VERSIONS,
    )


def _bytes(content: str | bytes | None) -> bytes | None:
    """The client's types also allow text, which consumers never return."""
    return content.encode() if isinstance(content, str) else content
