"""The types to parse a file's columns as, and the conversion to the wanted columns."""

import base64
import binascii

import pyarrow as pa
import pyarrow.compute as pc

from stores.errors import ConfigError


def as_read(field: pa.Field, where: str, file_format: str) -> pa.DataType:
    """The type to parse a field as. Raises ConfigError for one that the format cannot hold."""
    kind = field.type
    if file_format == "parquet":
        if not pa.types.is_map(kind):
            return kind
    elif file_format == "json" and (pa.types.is_list(kind) or pa.types.is_struct(kind)):
        if not any(_needs_text(inner) or pa.types.is_map(inner) for inner in _leaves(kind)):
            return kind
    elif _needs_text(kind):
        return pa.string()
    elif not pa.types.is_nested(kind):
        return kind
    raise ConfigError(
        f"column {field.name} of type {kind} cannot be read from a {file_format} file",
        where=where,
        next_step="leave it out of columns, or read it as a string",
    )


def as_wanted(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The batch with the wanted columns, in their order. Raises ArrowInvalid for a value that does not fit."""
    arrays = []
    for field in wanted:
        array = batch.column(batch.schema.get_field_index(field.name))
        if array.type != field.type:
            array = _converted(array, field.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _needs_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _leaves(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_nested(kind) and not pa.types.is_map(kind):
        return [leaf for i in range(kind.num_fields) for leaf in _leaves(kind.field(i).type)]
    return [kind]


def _converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(array.type) and pa.types.is_binary(kind):
        try:
            decoded = [None if text is None else base64.b64decode(text, validate=True) for text in array.to_pylist()]
        except binascii.Error:
            raise pa.ArrowInvalid("conversion error: a value is not base64") from None
        return pa.array(decoded, kind)
    if pa.types.is_string(array.type) and pa.types.is_timestamp(kind) and kind.tz is not None:
        # A time without an offset is UTC, as in the tables' JSON; Arrow needs offsets in all texts or in none.
        zoned = pc.match_substring_regex(array, r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$")
        with_zone = pc.if_else(zoned, array, None).cast(kind)
        without = pc.if_else(zoned, None, array).cast(pa.timestamp(kind.unit)).cast(kind)
        return pc.coalesce(with_zone, without)
    return array.cast(kind)
