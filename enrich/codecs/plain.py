"""Values that are a single column, bytes or UTF-8 text: two decoders and an encoder."""

import numpy as np
import pyarrow as pa

from enrich.base.errors import ConfigError
from enrich.codecs.encoding import Encoded
from enrich.codecs.rows import decode_in_batches
from stores.protocol import Decoded


class BytesDecoder:
    """Every value is the row's only column. Raises ConfigError unless there is exactly one column, of type binary."""

    def __init__(self, columns: pa.Schema) -> None:
        self._kind = _one_column(columns, pa.binary(), "bytes")

    def decode(self, values: pa.BinaryArray) -> Decoded:
        return decode_in_batches(values, self._kind, lambda batch: Decoded(_wrapped(batch, self._kind)))


class StringDecoder:
    """The same for text. Raises ConfigError unless there is exactly one column, of type string."""

    def __init__(self, columns: pa.Schema) -> None:
        self._kind = _one_column(columns, pa.string(), "string")

    def decode(self, values: pa.BinaryArray) -> Decoded:
        return decode_in_batches(values, self._kind, self._decode_batch)

    def _decode_batch(self, values: pa.BinaryArray) -> Decoded:
        try:
            return Decoded(_wrapped(values.cast(pa.string()), self._kind))
        except pa.ArrowInvalid:
            texts = [_text(value) for value in values.to_pylist()]
            bad = {
                index: "not UTF-8 text"
                for index in np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)).tolist()
                if texts[index] is None
            }
            return Decoded(_wrapped(pa.array(texts, pa.string()), self._kind), bad)


class PlainEncoder:
    """Writes the only column, of bytes or text, unchanged."""

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


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _wrapped(column: pa.Array, kind: pa.StructType) -> pa.StructArray:
    return pa.StructArray.from_arrays([column], fields=list(kind), mask=column.is_null())


def _one_column(columns: pa.Schema, wanted: pa.DataType, name: str) -> pa.StructType:
    if columns.types != [wanted]:
        raise ConfigError(f"format {name} has one column, of type {wanted}")
    return pa.struct(list(columns))
