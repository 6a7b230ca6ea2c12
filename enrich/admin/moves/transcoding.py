"""Converts values of one table to the encoding of another one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from enrich.base.errors import BadRecord, ConfigError
from enrich.codecs.encoding import Encoder
from stores.protocol import Decoder


class Transcoder(Protocol):
    """Converts each value; null stays null. Raises BadRecord, whose `where` is the index, for one it cannot convert."""

    def __call__(self, values: Sequence[bytes | None]) -> list[bytes | None]: ...


def unchanged(values: Sequence[bytes | None]) -> list[bytes | None]:
    return list(values)


@dataclass(frozen=True)
class Recoded:
    """Decodes in the old table's format and encodes in the new one's."""

    decoder: Decoder
    encoder: Encoder
    columns: tuple[str, ...]

    def __call__(self, values: Sequence[bytes | None]) -> list[bytes | None]:
        decoded = self.decoder.decode(pa.array(values, pa.binary()))
        if decoded.bad:
            index, reason = next(iter(decoded.bad.items()))
            raise BadRecord(f"the value cannot be decoded: {reason}", where=str(index))
        rows = decoded.rows
        batch = pa.RecordBatch.from_arrays(
            [rows.field(name) for name in self.columns],
            schema=pa.schema([rows.type.field(rows.type.get_field_index(name)) for name in self.columns]),
        )
        encoded = self.encoder.encode(batch)
        made: list[bytes | None] = encoded.values.to_pylist()
        for index, reason in encoded.bad.items():
            if values[index] is not None:
                raise BadRecord(f"the value cannot be written: {reason}", where=str(index))
        return [None if value is None else new for value, new in zip(values, made, strict=True)]


def recoded(decoder: Decoder, encoder: Encoder, old: pa.Schema, new: pa.Schema) -> Recoded:
    """Raises ConfigError for a column of the new table that the old one does not have."""
    missing = [name for name in new.names if name not in old.names]
    if missing:
        raise ConfigError(
            f"the old table has no column {', '.join(missing)}", next_step=f"its columns: {', '.join(old.names)}"
        )
    encoder.check(pa.schema([old.field(name) for name in new.names]))
    return Recoded(decoder, encoder, tuple(new.names))
