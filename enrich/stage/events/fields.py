"""Reads the fields of JSON events that keys and expressions name into columns. Both joins use it, so they agree on
what is an event and on the values of its fields."""

import numpy as np
import pyarrow as pa

from enrich.codecs import JsonDecoder
from enrich.stage.events.one_by_one import OneByOne
from enrich.stage.task.fate import Mask


class EventFields:
    """Fields of any column types. A field that is missing or of another type is null, and the event is still usable;
    the same holds inside lists and objects. Raises ConfigError for a type that JSON cannot represent."""

    def __init__(self, fields: pa.Schema) -> None:
        fields = pa.schema([pa.field(field.name, _all_nullable(field.type)) for field in fields])
        self._decoder = JsonDecoder(fields, OneByOne(fields))

    @staticmethod
    def can_read_alone(kind: pa.DataType) -> bool:
        """Whether a field of this type can be a key without Spark's conversion."""
        return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))

    def read(self, values: pa.BinaryArray) -> tuple[Mask, pa.StructArray]:
        """Which events are usable, that is one JSON object in UTF-8, and the fields of the usable ones."""
        decoded = self._decoder.decode(values)
        usable = np.ones(len(values), np.bool_)
        usable[list(decoded.bad)] = False
        return usable, decoded.rows


def _all_nullable(kind: pa.DataType) -> pa.DataType:
    """Drops NOT NULL inside of a field: events may break that promise."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _all_nullable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_all_nullable(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _all_nullable(kind.item_type))
    return kind
