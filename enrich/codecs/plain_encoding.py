"""Encodes rows with a single column of bytes or text, unchanged."""

import numpy as np
import pyarrow as pa

from enrich.base.errors import ConfigError
from enrich.codecs.encoding import Encoded


class PlainEncoder:
    def __init__(self, column: str) -> None:
        self._column = column
        self.identity = f"plain/1 {column}"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self._column,)

    def check(self, schema: pa.Schema) -> None:
        if schema.names != [self._column]:
            raise ConfigError(f"values of this format have one column, {self._column}, not {', '.join(schema.names)}")

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        values = rows.column(self._column).cast(pa.binary())
        nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist()
        return Encoded(values, dict.fromkeys(nulls, "the value is null, which would be a deletion"))
