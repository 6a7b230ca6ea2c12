"""Rows of tables with masked columns."""

from collections.abc import Mapping

import pyarrow as pa

from enrich.config import Masking
from enrich.stage.events.text import json_text
from enrich.stage.masking.members import contents_of
from enrich.stage.masking.values import masked


def masked_rows(rows: pa.StructArray, masks: Mapping[str, Masking], kind: pa.StructType, key: bytes) -> pa.StructArray:
    """`kind`: the type of the masked rows."""
    if not masks:
        return rows
    columns = [
        _masked(rows.field(number), masks.get(column.name, Masking.show), column.type, key)
        for number, column in enumerate(kind)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=rows.is_null())


def _masked(values: pa.Array, masking: Masking, kind: pa.DataType, key: bytes) -> pa.Array:
    if masking is Masking.show:
        return values
    if masking is Masking.null:
        return pa.nulls(len(values), kind)
    # As JSON, so that a value has the same hash here and in an event.
    contents = values.cast(pa.binary()) if pa.types.is_string(values.type) else contents_of(json_text(values))
    return masked(contents, masking, key)
