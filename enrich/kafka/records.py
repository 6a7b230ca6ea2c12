"""Kafka messages as row versions: the columns in which a table's records reach an engine."""

from collections.abc import Sequence

import pyarrow as pa
from confluent_kafka import Message

from stores.table import ROW_VERSIONS


def row_versions_of(messages: Sequence[Message]) -> tuple[pa.RecordBatch, list[Message]]:
    """The messages as a batch of `ROW_VERSIONS`, and those without a key, which cannot be rows.

    A broker refuses null keys in a compacted topic: they can only stem from before it was compacted.
    """
    keyed = [message for message in messages if message.key() is not None]
    columns = [
        [message.key() for message in keyed],
        [message.partition() for message in keyed],
        [message.offset() for message in keyed],
        [message.timestamp()[1] for message in keyed],
        [message.value() for message in keyed],
    ]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, ROW_VERSIONS, strict=True)],
        schema=ROW_VERSIONS,
    )
    return batch, [message for message in messages if message.key() is None]
