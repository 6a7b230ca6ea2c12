"""Rows of a database or a file as a table has them: the key as look-ups ask for it, the columns as JSON."""

import pyarrow as pa
import pyarrow.compute as pc

from enrich.agent.loaders.source import SOURCE_ROWS, SourceBatch
from enrich.codecs.json_encoding import JsonEncoder
from stores.keys import key_bytes

_NO_KEY = "have no key: it, or a part of it, is null"


class KeyedRows:
    """Which columns are the key, and which the row."""

    def __init__(self, key: tuple[str, ...], columns: tuple[str, ...]) -> None:
        self._key = key
        self._columns = columns
        self._encoder = JsonEncoder()

    @property
    def names(self) -> list[str]:
        """All columns that are needed, each once."""
        return list(dict.fromkeys((*self._key, *self._columns)))

    def of(self, batch: pa.RecordBatch) -> SourceBatch:
        """Raises ConfigError for columns that cannot be a key, or have no form in JSON."""
        self._encoder.check(batch.schema)
        keys = key_bytes(self._key_column(batch))
        values = self._encoder.encode(batch.select(self._columns)).values
        has_key = keys.is_valid()
        rows = [array.filter(has_key) for array in (keys, values)]
        missing = len(batch) - len(rows[0])
        return SourceBatch(pa.RecordBatch.from_arrays(rows, schema=SOURCE_ROWS), {_NO_KEY: missing} if missing else {})

    def _key_column(self, batch: pa.RecordBatch) -> pa.Array:
        parts = [batch.column(name) for name in self._key]
        if len(parts) == 1:
            return parts[0]
        whole = pc.invert(pa.array([False] * len(batch)))
        for part in parts:
            whole = pc.and_(whole, part.is_valid())
        return pa.StructArray.from_arrays(parts, list(self._key), mask=pc.invert(whole))
