"""Rows that a source has as JSON become batches of columns, as everywhere in enrich (docs/formats.md)."""

from collections.abc import Sequence

import pyarrow as pa

from enrich.base.errors import Retryable
from enrich.codecs import JsonDecoder


class JsonRows:
    """`where`: for messages, which never quote a row."""

    def __init__(self, columns: pa.Schema, where: str) -> None:
        self._columns = columns
        self._decoder = JsonDecoder(columns)
        self._where = where

    def batch(self, rows: Sequence[bytes]) -> pa.RecordBatch:
        """Raises Retryable if one is no object with these columns: without it, its key would look deleted."""
        decoded = self._decoder.decode(pa.array(rows, pa.binary()))
        for index, reason in decoded.bad.items():
            raise Retryable(f"row {index + 1} cannot be read: {reason}", where=self._where)
        if not len(decoded.rows):
            return pa.RecordBatch.from_pylist([], schema=self._columns)
        return pa.RecordBatch.from_arrays(decoded.rows.flatten(), schema=self._columns)
