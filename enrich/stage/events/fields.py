"""Reads the fields of JSON events that keys and expressions name into columns. Whoever evaluates them, they are read
here: what is an event and what is in its fields is decided once."""

import numpy as np
import pyarrow as pa

from enrich.codecs import JsonDecoder
from enrich.codecs.rows import completed
from enrich.stage.events.alone import alone
from enrich.stage.events.maps import has_equal_keys, listed, mapped
from enrich.stage.events.one_by_one import OneByOne
from enrich.stage.task.fate import Mask
from stores.protocol import Decoded

_FEWEST_ALONE = 300
"""So many events are read one by one as fast as by `alone`, with its many small calls (measured)."""


class EventFields:
    """Fields of any column types. A field that is missing or of another type is null, and the event is still usable;
    the same holds inside lists and objects. Raises ConfigError for a type that JSON cannot represent."""

    def __init__(self, fields: pa.Schema) -> None:
        fields = pa.schema([pa.field(field.name, _all_nullable(field.type)) for field in fields])
        one_by_one = OneByOne(fields)
        self._decoder = JsonDecoder(fields, _WithOddFields(fields, one_by_one) if len(fields) else one_by_one)

    def read(self, values: pa.BinaryArray) -> tuple[Mask, pa.StructArray]:
        """Which events are usable, that is one JSON object in UTF-8, and the fields of the usable ones."""
        decoded = self._decoder.decode(values)
        usable = np.ones(len(values), np.bool_)
        usable[list(decoded.bad)] = False
        return usable, decoded.rows


class _WithOddFields:
    """Reads events among which are some that Arrow's parser cannot read, such as those with text where a number is
    wanted: it is given the fields alone, without what is of no use. Producers that write such a field do so often, and
    one by one takes three times as long."""

    def __init__(self, fields: pa.Schema, one_by_one: OneByOne) -> None:
        self._kind = pa.struct(list(fields))
        self._one_by_one = one_by_one
        self._usable = JsonDecoder(pa.schema([]), _Undecided())
        self._listed = pa.schema([pa.field(field.name, listed(field.type)) for field in fields])
        self._alone = JsonDecoder(self._listed, OneByOne(self._listed))

    def decode(self, values: pa.BinaryArray) -> Decoded:
        if len(values) < _FEWEST_ALONE:
            return self._one_by_one.decode(values)
        decided = np.ones(len(values), np.bool_)
        decided[list(self._usable.decode(values).bad)] = False
        pieces = []
        if decided.any():
            rows = np.flatnonzero(decided)
            texts, is_odd = alone(values.take(pa.array(rows)), self._kind)
            read = self._alone.decode(texts).rows
            is_odd = is_odd | has_equal_keys(read, self._kind)
            decided[rows[is_odd]] = False
            pieces.append((rows[~is_odd], mapped(read.filter(pa.array(~is_odd)), self._kind)))
        return completed(values, pieces, ~decided, self._one_by_one, self._kind)


class _Undecided:
    """Says of all values that they are bad: those that Arrow's parser has not read."""

    def decode(self, values: pa.BinaryArray) -> Decoded:
        return Decoded(pa.nulls(len(values), pa.struct([])), dict.fromkeys(range(len(values)), "undecided"))


def _all_nullable(kind: pa.DataType) -> pa.DataType:
    """Drops NOT NULL inside of a field: events may break that promise."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _all_nullable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_all_nullable(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _all_nullable(kind.item_type))
    return kind
