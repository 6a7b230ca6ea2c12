"""Rows back to raw values, a batch at a time: what a source writes, and the decoders of the same format read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Encoded:
    """A value for each row; null, with the reason, where a row cannot be encoded. Reasons never hold values."""

    values: pa.BinaryArray
    bad: Mapping[int, str] = field(default_factory=dict)


class Encoder(Protocol):
    """Equal rows give equal bytes, today and in the next release: a content is compared by them."""

    @property
    def identity(self) -> str:
        """Another text when the same rows would give other bytes."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that it asks for; None: whatever there is."""

    def check(self, schema: pa.Schema) -> None:
        """Raises ConfigError for columns that it cannot write."""

    def encode(self, rows: pa.RecordBatch) -> Encoded: ...
