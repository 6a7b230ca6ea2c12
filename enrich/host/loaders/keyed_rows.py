"""Turns rows of a database or a file into rows of a table: the key as look-ups ask for it, the columns as JSON."""

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.json.encoding import JsonEncoder
from enrich.host.loaders.source import SOURCE_ROWS, SourceBatch
from stores.keys import key_bytes

_NO_KEY = "have no key: it, or a part of it, is null or of another type"


class KeyedRows:
    """Knows which columns are the key and which the row."""

    def __init__(self, key: tuple[str, ...], columns: tuple[str, ...]) -> None:
        self.key = key
        self._columns = columns
        self._encoder = JsonEncoder()

    @property
    def names(self) -> list[str]:
        """All columns to read, each once."""
        return list(dict.fromkeys((*self.key, *self._columns)))

    def of(self, batch: pa.RecordBatch, parts: Sequence[pa.Array] | None = None) -> SourceBatch:
        """`parts`: the parts of the key, if they differ from the batch's columns. Raises ConfigError for columns that
        cannot be a key, or cannot be written as JSON."""
        keys = key_bytes(_key_column([batch.column(name) for name in self.key] if parts is None else parts))
        row = batch.select(self._columns)
        self._encoder.check(row.schema)
        values = self._encoder.encode(row).values
        has_key = keys.is_valid()
        rows = [array.filter(has_key) for array in (keys, values)]
        missing = len(batch) - len(rows[0])
        return SourceBatch(pa.RecordBatch.from_arrays(rows, schema=SOURCE_ROWS), {_NO_KEY: missing} if missing else {})


def _key_column(parts: Sequence[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    is_null = reduce(pc.or_, (part.is_null() for part in parts))
    return pa.StructArray.from_arrays(parts, [str(number) for number in range(len(parts))], mask=is_null)
