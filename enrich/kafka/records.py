"""Converts Kafka messages to row versions: the columns in which an engine takes the records of a table."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from stores.table import ROW_VERSIONS


def key_of(message: Message) -> bytes | None:
    return _bytes(message.key())


def value_of(message: Message) -> bytes | None:
    return _bytes(message.value())


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """The headers in order; a name may occur twice."""
    headers: Any = message.headers()  # a list of pairs, whatever the client's types say
    return headers or []


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
