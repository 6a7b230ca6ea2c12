"""Decodes each column of a bad value separately, to help people find the fault."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from enrich.codecs.avro import SchemaSource
from enrich.codecs.tables import decoder_for

if TYPE_CHECKING:
    from enrich.config import SyncWriteback, Table


@dataclass(frozen=True)
class Piece:
    """One column of a value: what it decodes to, or why it does not."""

    column: str
    value: Any
    reason: str | None


def pieces_of(table: "Table | SyncWriteback", value: bytes, schemas: SchemaSource | None = None) -> Iterator[Piece]:
    """The columns in order, each decoded as if the table had no other."""
    for name in table.columns.names:
        alone = table.model_copy(update={"columns": table.columns.select([name])})
        decoded = decoder_for(alone, schemas).decode(pa.array([value], pa.binary()))
        row = decoded.rows[0].as_py()
        yield Piece(name, None if row is None else row[name], decoded.bad.get(0))
