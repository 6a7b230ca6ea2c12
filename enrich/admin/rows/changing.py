"""Writes and deletes single rows of a table's topic: all rows of one call in one transaction."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from enrich.admin.rows.target import Target
from enrich.base.errors import ConfigError
from enrich.codecs import JsonDecoder
from enrich.kafka.writing.transactions import TransactionalProducer


def encoded_row(target: Target, text: str) -> bytes:
    """The value of a row that is given as JSON; for formats `string` and `bytes` the text itself. Raises ConfigError
    for a value that cannot become a row, and for a field that is no column, since it is most likely misspelt."""
    if str(target.section.format) in ("string", "bytes"):
        value = text.encode()
    else:
        fields = _object(target, text)
        columns: pa.Schema = target.section.columns.arrow
        unknown = [name for name in fields if name not in columns.names]
        if unknown:
            raise ConfigError(
                f"there is no column {', '.join(unknown)}",
                where=f"table {target.name}",
                next_step=f"its columns: {', '.join(columns.names)}",
            )
        value = text.encode()
        if str(target.section.format) != "json":
            value = _in_table_format(target, value, columns)
    target.require_decodable(value)
    return value


def put(target: Target, rows: Mapping[bytes, bytes | None]) -> dict[int, int]:
    """Writes the rows; None is a tombstone. Returns the offset of the last record by partition."""
    for key, value in rows.items():
        target.require_size(key, value)
    producer = TransactionalProducer(target.writing, target.identity, deadline_s=target.cluster.deadline_s)
    with target.transaction(producer) as spans:
        producer.produce(target.topic, list(rows), list(rows.values()))
    return {partition: span.last for partition, span in spans.items()}


def _object(target: Target, text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the value is not JSON: {error}", where=f"table {target.name}") from None
    if not isinstance(fields, dict):
        raise ConfigError("the value is not a JSON object", where=f"table {target.name}")
    return fields


def _in_table_format(target: Target, value: bytes, columns: pa.Schema) -> bytes:
    decoded = JsonDecoder(columns).decode(pa.array([value], pa.binary()))
    if decoded.bad:
        raise ConfigError(f"the value cannot become a row: {decoded.bad[0]}", where=f"table {target.name}")
    rows = pa.RecordBatch.from_struct_array(decoded.rows)
    target.encoder.check(rows.schema)
    encoded = target.encoder.encode(rows)
    if encoded.bad:
        raise ConfigError(f"the value cannot be written: {encoded.bad[0]}", where=f"table {target.name}")
    found: bytes = encoded.values[0].as_py()
    return found
