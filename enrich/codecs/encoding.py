"""Encodes rows to raw values, in batches: sources write them, and the decoders of the same format read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Encoded:
    """A value for each row; null, with a reason, if the row cannot be encoded. Reasons never contain values."""

    values: pa.BinaryArray
    bad: Mapping[int, str] = field(default_factory=dict)


class Encoder(Protocol):
    """Equal rows must give equal bytes, also in later releases: sources compare rows by them."""

    @property
    def identity(self) -> str:
        """Must change if the same rows would give other bytes."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that it needs; None: all there are."""

    def check(self, schema: pa.Schema) -> None:
        """Raises ConfigError for columns that it cannot write."""

    def encode(self, rows: pa.RecordBatch) -> Encoded: ...
